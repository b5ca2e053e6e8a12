"""Selects the samples that answer to the metric names of policies."""

from collections import Counter
from collections.abc import Container, Iterable, Sequence

from agent.metric_names import candidates
from collectors.interface.sample import Family, Labels, Sample
from plimsoll.metric_names import PREFIX
from plimsoll.text import one_line
from wire.codec import LONGEST_CAUSE, Snapshot
from wire.patterns import Patterns

CAUSE = "_cause"
"""Of the name of a series whose labels say what the value of a metric comes from, while it is above 0."""
_MOST_CAUSES = 4
"""Series that a cause names; the others are counted."""


def select(
    families: Iterable[Family],
    metrics: Sequence[str],
    unread: Container[str] = (),
    partly: Container[str] = (),
) -> Snapshot:
    """Return the value of each metric with a single sample; metrics with several samples are counted, others are absent.

    `unread`: metrics whose source could not be read; without a value they are unknown. `partly`: metrics that may lack samples:
    of these, a single sample with labels is not the only one, so the value is unknown too. A value has a cause if series
    `<metric>_cause` are above 0.
    """
    metrics_by_series: dict[str, list[str]] = {}
    for metric in metrics:
        for name in candidates(metric):
            metrics_by_series.setdefault(name, []).append(metric)
    found: dict[str, list[Sample]] = {}
    causes_by_metric: dict[str, list[tuple[float, str]]] = {}
    for family in families:
        if family.name.endswith(CAUSE):
            for metric in metrics_by_series.get(family.name.removesuffix(CAUSE), ()):
                causes_by_metric.setdefault(metric, []).extend(
                    (-sample.value, _labels(sample.labels))
                    for sample in family.samples
                    if sample.value > 0
                )
        if family.name not in metrics_by_series and family.type not in {"histogram", "summary"}:
            continue
        for sample in family.samples:
            for metric in metrics_by_series.get(sample.name, ()):
                found.setdefault(metric, []).append(sample)
    values = {
        metric: samples[0].value
        for metric, samples in found.items()
        if len(samples) == 1 and not (samples[0].labels and metric in partly)
    }
    several = {metric: len(samples) for metric, samples in found.items() if len(samples) > 1}
    return Snapshot(
        values,
        several,
        frozenset(m for m in metrics if m not in values and m not in several and m in unread),
        {
            metric: _cause(causes)
            for metric, causes in causes_by_metric.items()
            if causes and metric in values
        },
    )


def _labels(labels: Labels) -> str:
    """Return labels as text, after that of the rule: `gpu: UUID=GPU-1, pci_bus_id=0000:3b:00`."""
    found = dict(labels)
    rule = found.pop("rule", "")
    text = ", ".join(f"{name}={value}" for name, value in found.items() if value)
    return ": ".join(part for part in (rule, text) if part)


def _cause(causes: list[tuple[float, str]]) -> str:
    """Return the causes of a value, the highest first."""
    shown = [text for _, text in sorted(causes)[:_MOST_CAUSES]]
    more = len(causes) - len(shown)
    return one_line("; ".join(shown) + (f"; and {more} more" if more else ""), LONGEST_CAUSE)


def matching(families: Iterable[Family], patterns: Sequence[str]) -> list[str]:
    """Return the names that match patterns, of all metrics with a single sample: series, or series without `node_`. Sorted."""
    wanted = Patterns(patterns)
    counts = Counter(sample.name for family in families for sample in family.samples)
    names = (_matched(name, wanted) for name, count in counts.items() if count == 1)
    return sorted({name for name in names if name})


def _matched(series: str, wanted: Patterns) -> str:
    """Return the name by which a series matches; empty if it does not."""
    return next((n for n in (series, series.removeprefix(PREFIX)) if wanted.matches(n)), "")
