"""A collector in the registry: its entry as in the index, and its module, imported when the collector is needed."""

import dataclasses
import importlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.interface.entry import Entry, NoOptions
from collectors.interface.host import Host
from collectors.interface.metric import Table
from collectors.interface.sample import Collector, Family, SourceAbsentError
from collectors.shared import netroot


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A collector by name. What is no field needs the collector's module and imports it."""

    name: str
    about: str
    on: bool = True
    options: type[Any] = NoOptions
    """The flags; an instance imports the module only if its values are not the defaults, to check them."""
    source: str = ""
    needs: str = ""
    open_ended: bool = False
    optional: bool = False
    slow: bool = False
    prefixes: tuple[str, ...] = ()
    """Each name in its table begins with one of these."""

    @property
    def metrics(self) -> Table:
        """The table of its metrics."""
        return load(self.name).metrics

    def can_yield(self, metric: str) -> bool:
        """Return whether the collector can yield a series of this name."""
        if self.open_ended:
            return True
        return metric.startswith(self.prefixes) and self.metrics.find(metric) is not None

    def build(self, host: Host, options: Any) -> Collector:
        """Return the collector, or one that takes its place until its source exists."""
        if not self.source:
            return self.make(host, options)
        return _AbsentSource(_path(host, self.source), lambda: self.make(host, options))

    def make(self, host: Host, options: Any) -> Collector:
        """Import the module and return the collector."""
        entry = load(self.name)
        if not isinstance(options, entry.options):
            fields = dataclasses.fields(entry.options)
            options = entry.options(**{f.name: getattr(options, f.name) for f in fields})
        return entry.build(host, options)


def load(name: str) -> Entry:
    """Import a collector's module and return its entry. Raises TypeError if it has none."""
    entry = getattr(importlib.import_module(f"collectors.{name}"), "ENTRY", None)
    if not isinstance(entry, Entry):
        raise TypeError(
            f"collectors.{name}: ENTRY is missing (write it like that of another collector)"
        )
    return entry


class _AbsentSource:
    """Reports an absent source until a path exists, then makes the collector and delegates to it."""

    def __init__(self, path: Path, make: Callable[[], Collector]) -> None:
        self._path = str(path)
        self._make = make
        self._collector: Collector | None = None

    def collect(self) -> Iterable[Family]:
        """Run the collector, if there is a source."""
        if self._collector is None:
            if not os.access(self._path, os.F_OK):
                raise SourceAbsentError(f"{self._path}: not there")
            self._collector = self._make()
        return self._collector.collect()


def _path(host: Host, source: str) -> Path:
    root, _, rest = source.partition("/")
    if root == "<net>":
        return netroot.directory(host) / rest
    return {"<procfs>": host.procfs, "<sysfs>": host.sysfs}[root] / rest
