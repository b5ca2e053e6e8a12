"""Looks up metrics by the names that policies use, and finds similar names."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from plimsoll.text import SIMILAR, NearNames

PREFIX = "node_"

_SAME = 0.93
"""difflib's ratio of a name with a typing error."""
_PLACEHOLDER = re.compile(r"<[a-z]+>")
_ONE_SERIES = frozenset({"time_zone", "id", "id_like", "name"})
"""Labels of metrics with one series on a node, such as its time zone."""
_RANGES = {
    "ratio": (0.0, 1.0),
    "percent": (0.0, 100.0),
    "0 or 1": (0.0, 1.0),
    "0, 1 or 2": (0.0, 2.0),
}
"""Lowest and highest value by unit."""


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One metric. `name` may have one placeholder, as in `node_vmstat_<field>`; `origin`: its collector or rule file.

    `window`: the longest range that a shipped rule reads, with those of the rules it is computed from (seconds); 0 without.
    """

    name: str
    type: str
    unit: str
    labels: tuple[str, ...]
    origin: str
    window: float = 0.0

    @property
    def is_template(self) -> bool:
        """Whether the name has a placeholder."""
        return "<" in self.name

    @property
    def several(self) -> bool:
        """Whether a node can have several series of it."""
        return not _ONE_SERIES.issuperset(self.labels)

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest value that it can have."""
        unit = self.unit
        if not unit and self.name.endswith(("_ratio", "_percent")):
            unit = self.name.rpartition("_")[2]
        return _RANGES.get(unit, (-math.inf, math.inf))


class Catalog:
    """Metrics by name. Policies may leave out the prefix `node_`."""

    def __init__(self, entries: Iterable[CatalogEntry]) -> None:
        entries = list(entries)
        self._exact: dict[str, CatalogEntry] = {}
        for entry in entries:
            self._exact.setdefault(entry.name, entry)
        self._templates = [(_pattern(e.name), e) for e in entries if e.is_template]

    @property
    def names(self) -> Sequence[str]:
        """The names without placeholders."""
        return [name for name, entry in self._exact.items() if not entry.is_template]

    def find(self, metric: str) -> CatalogEntry | None:
        """Return the entry of a metric by its exact name; None if there is none."""
        return self._exact.get(metric) or self._exact.get(PREFIX + metric)

    def possible(self, metric: str) -> bool:
        """Return whether a collector whose metrics have names of the kernel's making could export this one."""
        candidates = (metric, PREFIX + metric)
        return any(pattern.fullmatch(name) for pattern, _ in self._templates for name in candidates)

    def similar(self, metric: str, most: int = 3) -> list[str]:
        """Return the names of similar metrics, with the prefix only if the metric has it.

        A metric that a collector could export has to be almost the same: names of the kernel's making are similar.
        """
        return similar(metric, self._near, most, least=_SAME if self.possible(metric) else 0.0)

    @cached_property
    def _near(self) -> NearNames:
        return near_names(self.names)


def near_names(names: Iterable[str]) -> NearNames:
    """Return metric names prepared for `similar`."""
    return NearNames({name.removeprefix(PREFIX) for name in names})


def similar(metric: str, names: NearNames, most: int = 3, least: float = 0.0) -> list[str]:
    """Return up to `most` names similar to a metric's, with the prefix only if the metric has it."""
    prefix = PREFIX if metric.startswith(PREFIX) else ""
    found = names.find(metric.removeprefix(PREFIX), most, max(least, SIMILAR))
    return [prefix + name for name in found]


def _pattern(template: str) -> re.Pattern[str]:
    before, after = _PLACEHOLDER.split(template)
    return re.compile(f"{re.escape(before)}[a-zA-Z0-9_]+{re.escape(after)}")
