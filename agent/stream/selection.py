"""Selects the samples that answer to the metric names of policies."""

from collections import Counter
from collections.abc import Container, Iterable, Sequence

from agent.metric_names import PREFIX, candidates
from collectors.interface.sample import Family
from wire.codec import Snapshot
from wire.patterns import Patterns


def select(
    families: Iterable[Family], metrics: Sequence[str], unread: Container[str] = ()
) -> Snapshot:
    """Return the value of each metric with a single sample; metrics with several samples are counted, others are absent.

    `unread`: metrics whose source could not be read; without a value they are unknown.
    """
    metrics_by_series: dict[str, list[str]] = {}
    for metric in metrics:
        for name in candidates(metric):
            metrics_by_series.setdefault(name, []).append(metric)
    values_by_metric: dict[str, list[float]] = {}
    for family in families:
        if family.name not in metrics_by_series and family.type not in {"histogram", "summary"}:
            continue
        for sample in family.samples:
            for metric in metrics_by_series.get(sample.name, ()):
                values_by_metric.setdefault(metric, []).append(sample.value)
    return Snapshot(
        {metric: values[0] for metric, values in values_by_metric.items() if len(values) == 1},
        {metric: len(values) for metric, values in values_by_metric.items() if len(values) > 1},
        frozenset(
            metric for metric in metrics if metric not in values_by_metric and metric in unread
        ),
    )


def matching(families: Iterable[Family], patterns: Sequence[str]) -> list[str]:
    """Return the names that match patterns, of all metrics with a single sample: series, or series without `node_`. Sorted."""
    wanted = Patterns(patterns)
    counts = Counter(sample.name for family in families for sample in family.samples)
    names = (_matched(name, wanted) for name, count in counts.items() if count == 1)
    return sorted({name for name in names if name})


def _matched(series: str, wanted: Patterns) -> str:
    """Return the name by which a series matches; empty if it does not."""
    return next((n for n in (series, series.removeprefix(PREFIX)) if wanted.matches(n)), "")
