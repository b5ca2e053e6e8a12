"""Entries of the registry: of collectors that are always imported, and of those imported when they are needed."""

import importlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from collectors.interface.host import Host
from collectors.interface.metric import Table
from collectors.interface.sample import Collector, Family, SourceAbsentError
from collectors.shared import netroot


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Options of a collector without flags."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A collector's factory, metrics, default state and the dataclass of its flags.

    `open_ended`: it can yield metrics of any name, beside those in its table. `needs`: what it needs beside its source.
    `slow`: it costs much and its values rarely change, so rules that are evaluated every second reuse them for some seconds.
    """

    build: Callable[[Host, Any], Collector]
    metrics: Table
    about: str
    on: bool = True
    options: type[Any] = NoOptions
    open_ended: bool = False
    needs: str = ""
    slow: bool = False

    def can_yield(self, metric: str) -> bool:
        """Return whether the collector can yield a series of this name."""
        return self.open_ended or self.metrics.find(metric) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemand:
    """A collector whose module is imported only if it is enabled and its source exists, to save memory.

    `prefixes`: all names of its metrics begin with one of these. `source`: a path that exists on machines with the source,
    such as `<sysfs>/fs/bcache`; `<net>` is the network's directory in procfs. Without it the module is imported if enabled.
    """

    module: str
    name: str
    """The class in the module; called with the host and, if it has flags, its options."""
    about: str
    prefixes: tuple[str, ...]
    source: str = ""
    on: bool = False
    options: type[Any] = NoOptions
    needs: str = ""
    open_ended: bool = False
    slow: bool = False

    @property
    def metrics(self) -> Table:
        """The table of its metrics."""
        return cast(Table, self._import().METRICS)

    def can_yield(self, metric: str) -> bool:
        """Return whether the collector can yield a series of this name."""
        return metric.startswith(self.prefixes) and self.metrics.find(metric) is not None

    def build(self, host: Host, options: Any) -> Collector:
        """Return the collector, or one that takes its place until the source exists."""
        if not self.source:
            return self.make(host, options)
        return _AbsentSource(_path(host, self.source), lambda: self.make(host, options))

    def make(self, host: Host, options: Any) -> Collector:
        """Import the module and return the collector."""
        made = getattr(self._import(), self.name)
        arguments = () if self.options is NoOptions else (options,)
        return cast(Collector, made(host, *arguments))

    def _import(self) -> Any:
        return importlib.import_module(f"collectors.{self.module}")


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
