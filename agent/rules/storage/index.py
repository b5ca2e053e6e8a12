"""Index of a store's series: by metric, by the exporter's label set, and by selector."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.plan import Need
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.storage.series import StoredSeries
from collectors.interface.sample import Labels as Pairs

_VIEWS = 1 << 12  # selectors with a cached result
_VIEWED = 16  # entries of all cached results, as a multiple of the series
_ENTRY = 8  # bytes of a series in a cached result
_NAMES = 1 << 12  # cached names of unneeded metrics
_METRIC = 700  # bytes of a metric without series (measured)
PAIRS = 160
"""Bytes of a cached label set in the exporter's order (measured)."""


_View = tuple[Selector | None, int, list[StoredSeries]]
_NO_VIEW: _View = (None, -1, [])


class MetricSeries:
    """The series of one metric."""

    __slots__ = ("_needs", "known", "live", "series", "unneeded", "version")

    def __init__(self, needs: Iterable[Need]) -> None:
        self._needs = _longest_first(needs)
        self.live: list[StoredSeries] = []
        """Collected series that are not stale."""
        self.series: dict[Labels, StoredSeries] = {}
        self.known: dict[Pairs, StoredSeries | None] = {}
        """By label set in the exporter's order; None for unneeded ones."""
        self.unneeded = 0
        """Number of unneeded label sets."""
        self.version = 0
        """Changes whenever `series` changes."""

    def reach(self, labels: Labels) -> int | None:
        """Return how long (ms) to keep a series' samples; None if it is not needed."""
        return next((need.reach for need in self._needs if need.selector(labels)), None)

    def change_needs(self, needs: Iterable[Need]) -> None:
        """Keep only the series that these need, as long as they need them."""
        self._needs = _longest_first(needs)
        kept: dict[Labels, StoredSeries] = {}
        for labels, series in self.series.items():
            if (reach := self.reach(labels)) is not None:
                series.reach = reach
                kept[labels] = series
        self._replace(kept)
        self.known = {p: s for p, s in self.known.items() if s and s.labels in kept}
        self.unneeded = 0

    def remove(self, gone: Collection[StoredSeries]) -> None:
        """Remove series."""
        labels = {series.labels for series in gone}
        self._replace({found: s for found, s in self.series.items() if found not in labels})
        self.known = {p: s for p, s in self.known.items() if not s or s.labels not in labels}

    def _replace(self, kept: dict[Labels, StoredSeries]) -> None:
        if len(kept) < len(self.series):
            self.series = kept
            self.live = [series for series in self.live if series.labels in kept]
            self.version += 1

    def add(self, series: StoredSeries) -> None:
        """Add a series."""
        self.series[series.labels] = series
        self.version += 1

    def remember(self, pairs: Pairs, series: StoredSeries | None) -> None:
        """See `SeriesIndex.remember`."""
        self.known[pairs] = series
        self.unneeded += series is None

    def forget_unneeded(self) -> None:
        """See `SeriesIndex.forget_unneeded`."""
        if self.unneeded:
            self.known = {pairs: series for pairs, series in self.known.items() if series}
            self.unneeded = 0

    def forget_empty(self) -> None:
        """Remove series without samples."""
        self.series = {labels: series for labels, series in self.series.items() if series.starts}
        self.known = {p: series for p, series in self.known.items() if not series or series.starts}
        self.version += 1


def _longest_first(needs: Iterable[Need]) -> tuple[Need, ...]:
    return tuple(sorted(needs, key=lambda need: -need.reach))


class SeriesIndex:
    """The series of a store by metric."""

    def __init__(self, needs: Iterable[Need]) -> None:
        self._needs = tuple(needs)
        self._metrics: dict[str, MetricSeries] = {}
        self._pairs = 0
        self._unneeded: set[str] = set()
        self._views: dict[int, _View] = {}
        self._viewed = 0
        """Number of entries of all views."""

    @property
    def metrics(self) -> Mapping[str, MetricSeries]:
        """Return the metrics that were asked for and are needed."""
        return self._metrics

    @property
    def bytes(self) -> int:
        """Return the approximate memory in bytes, without the series."""
        return _METRIC * len(self._metrics) + PAIRS * self._pairs + _ENTRY * self._viewed

    def change_needs(self, needs: Iterable[Need]) -> None:
        """Keep only the series that these need, as long as they need them."""
        self._needs = tuple(needs)
        before, self._metrics = self._metrics, {}
        self._unneeded.clear()
        self._drop_views()
        for name, metric in before.items():
            if found := [need for need in self._needs if may_match(need.selector, name)]:
                metric.change_needs(found)
                self._metrics[name] = metric
        self._count()

    def remove(self, metric: MetricSeries, gone: Collection[StoredSeries]) -> None:
        """Remove series of a metric."""
        metric.remove(gone)
        self._count()

    def remember(self, metric: MetricSeries, pairs: Pairs, series: StoredSeries | None) -> None:
        """Cache the series for a label set in the exporter's order."""
        metric.remember(pairs, series)
        self._pairs += 1

    def forget_unneeded(self) -> None:
        """Drop cached label sets of unneeded series, which may never occur again."""
        for metric in self._metrics.values():
            metric.forget_unneeded()
        self._count()

    def forget_empty(self, names: Iterable[str]) -> None:
        """Remove series without samples of these metrics."""
        for name in names:
            if metric := self._metrics.get(name):
                metric.forget_empty()
        self._count()

    def _count(self) -> None:
        self._pairs = sum(len(metric.known) for metric in self._metrics.values())

    def metric(self, name: str) -> MetricSeries | None:
        """Return the series of a metric; None if no selector can match them."""
        metric = self._metrics.get(name)
        if metric is None and name not in self._unneeded:
            metric = self._new_metric(name)
        return metric

    def _new_metric(self, name: str) -> MetricSeries | None:
        if needs := [need for need in self._needs if may_match(need.selector, name)]:
            metric = self._metrics[name] = MetricSeries(needs)
            return metric
        if len(self._unneeded) >= _NAMES:
            self._unneeded.clear()
        self._unneeded.add(name)
        return None

    def select(self, selector: Selector) -> Sequence[StoredSeries]:
        """Return the series that a selector matches; the same object while nothing changed."""
        metrics = self._metrics.values() if not selector.metric else self._named(selector.metric)
        version = sum([metric.version for metric in metrics])
        known, before, found = self._views.get(id(selector), _NO_VIEW)
        if known is not selector or before != version:
            found = self.find(selector)
            self._view(selector, version, found)
        return found

    def find(self, selector: Selector) -> list[StoredSeries]:
        """Return the series that a selector matches, without a cache."""
        metrics = self._metrics.values() if not selector.metric else self._named(selector.metric)
        return [s for metric in metrics for s in metric.series.values() if selector(s.labels)]

    def _view(self, selector: Selector, version: int, found: list[StoredSeries]) -> None:
        self._viewed += len(found) - len(self._views.pop(id(selector), _NO_VIEW)[2])
        series = sum([len(metric.series) for metric in self._metrics.values()])
        if len(self._views) >= _VIEWS or self._viewed > _VIEWED * series:
            self._drop_views()
            self._viewed = len(found)
        self._views[id(selector)] = selector, version, found

    def _drop_views(self) -> None:
        self._views.clear()
        self._viewed = 0

    def _named(self, name: str) -> tuple[MetricSeries, ...]:
        metric = self._metrics.get(name)
        return () if metric is None else (metric,)


def may_match(selector: Selector, name: str) -> bool:
    """Return whether a selector may match series of this metric."""
    if selector.metric:
        return selector.metric == name
    return all(matcher(name) for matcher in selector.matchers if matcher.name == NAME)
