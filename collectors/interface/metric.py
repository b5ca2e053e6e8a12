"""Metric tables: name, type, unit, HELP, labels and source file of each metric, at the top of each collector's module.

A name is exact (`node_load1`) or a template with one placeholder (`node_vmstat_<field>`). Collectors build families through
their table, so undocumented metrics cannot be exported; `collectors.registry` has all tables.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from collectors.interface.sample import Family, Labels, MetricType, Sample

_KEPT_LABELS = 1 << 14
_PLACEHOLDER = re.compile(r"<[a-z]+>")


class UncataloguedError(Exception):
    """A collector exported a metric that is not in its table: a defect of the collector."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row: name, type, HELP, labels and source of a family."""

    name: str
    type: MetricType
    help: str
    source: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    node_exporter: bool = True


class Table:
    """The metrics of one collector in the order of the docs. Exact names precede templates."""

    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics
        self._exact = {metric.name: metric for metric in metrics if "<" not in metric.name}
        self._templates = [
            (_compile(metric.name), metric) for metric in metrics if "<" in metric.name
        ]
        self._find = lru_cache(maxsize=4096)(self._look_up)
        # The same labels occur in every scrape; a lookup is much cheaper than building them.
        self._labels = lru_cache(maxsize=_KEPT_LABELS)(self._put_labels)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics)

    def find(self, name: str) -> Metric | None:
        """Return the row for a metric's name. Not cached, since most names queried are in other tables."""
        found = self._look_up(name)
        return found[0] if found else None

    def family(self, name: str, rows: Iterable[tuple[Sequence[str], float]]) -> Family:
        """Return a family of this metric; a row is the label values, in the table's order, and the value."""
        metric, described = self._found(name)
        labels = self._labels
        samples = tuple([Sample(name, labels(name, tuple(key)), value) for key, value in rows])
        return Family(name, metric.type, described, samples)

    def single(self, name: str, value: float) -> Family:
        """Return a family of one sample without labels."""
        metric, described = self._found(name)
        return Family(name, metric.type, described, (Sample(name, self._labels(name, ()), value),))

    def facts(self, name: str, rows: Iterable[Mapping[str, str]]) -> Family:
        """Return a family with the constant value 1; a row is its labels, without those that the source lacks."""
        return self.partial(name, ((labels, 1.0) for labels in rows))

    def partial(self, name: str, rows: Iterable[tuple[Mapping[str, str], float]]) -> Family:
        """Return a family of this metric; a row is its labels, without those that the source lacks, and the value."""
        metric, described = self._found(name)
        samples = tuple(Sample(name, _present(metric, labels), value) for labels, value in rows)
        return Family(name, metric.type, described, samples)

    def _found(self, name: str) -> tuple[Metric, str]:
        found = self._find(name)
        if found is None:
            raise UncataloguedError(f"no metric {name} in the table")
        return found

    def _put_labels(self, name: str, values: tuple[str, ...]) -> Labels:
        metric, _ = self._found(name)
        if len(values) != len(metric.labels):
            raise UncataloguedError(f"{metric.name} has the labels {metric.labels}, not {values}")
        return tuple(zip(metric.labels, map(shown, values), strict=True))

    def _look_up(self, name: str) -> tuple[Metric, str] | None:
        """Return a row and its HELP with the placeholder filled in."""
        if (exact := self._exact.get(name)) is not None:
            return exact, exact.help
        for pattern, metric in self._templates:
            if (match := pattern.fullmatch(name)) is not None:
                return metric, _PLACEHOLDER.sub(match.group(1), metric.help)
        return None


def _present(metric: Metric, labels: Mapping[str, str]) -> Labels:
    if not labels.keys() <= set(metric.labels):
        raise UncataloguedError(f"{metric.name} has the labels {metric.labels}, not {[*labels]}")
    return tuple((label, shown(labels[label])) for label in metric.labels if label in labels)


def shown(name: str) -> str:
    """Return a name with U+FFFD for bytes that are not UTF-8, which are surrogates in it (`surrogateescape`)."""
    return (
        name
        if name.isascii()
        else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    )


def _compile(template: str) -> re.Pattern[str]:
    before, after = _PLACEHOLDER.split(template)
    return re.compile(f"{re.escape(before)}([a-zA-Z0-9_]+){re.escape(after)}")
