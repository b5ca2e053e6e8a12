"""The condition MetricsFound: which metrics of a policy no node has, and which similar ones nodes do have.

A metric counts as not found only if nodes reported without it and no node has it. While a first report is pending, or a source
cannot be read, nothing is said about it.
"""

from collections.abc import Callable, Mapping, Sequence

from evaluator.core.model.events import EventSpec
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.problems import absence
from plimsoll.text import counted

METRICS_FOUND = "MetricsFound"

SimilarTo = Callable[[str], Sequence[str] | None]
"""Returns metrics that nodes have and that are similar to one that no node has; None until that is known."""

_NAMED = 20
"""Metrics that a message names; the others are counted."""


def state(decision: Decision, table: MetricTable, similar_to: SimilarTo) -> tuple[str, str, str]:
    """Return status, reason and message of the condition."""
    metrics = sorted(decision.policy.measured_metrics)
    if decision.not_found:
        return (
            "False",
            "MetricsNotFound",
            _joined(
                [
                    f"{metric} is on none of {counted(table.column(metric).presence.lacking, 'node')}{_hint(similar_to(metric))}"
                    for metric in decision.not_found
                ]
            ),
        )
    waiting = [metric for metric in metrics if not table.column(metric).presence.having]
    if faults := [fault for metric in waiting if (fault := table.column(metric).fault)]:
        return "Unknown", "SourceFailing", _joined(faults)
    if waiting:
        return "Unknown", "ReadingsAwaited", f"no node has reported {_joined(waiting)} yet"
    return "True", "AllFound", "some node has each metric" if metrics else "it names no metrics"


def problems(decision: Decision, similar_to: SimilarTo) -> list[str]:
    """Return the problems of a decision where its conditions are not shown: with similar metrics."""
    absent = {
        absence(metric): f"no node has the metric {metric}{_hint(similar_to(metric))}"
        for metric in decision.not_found
    }
    return [absent.get(problem, problem) for problem in decision.problems]


def events(decision: Decision, similar_to: SimilarTo) -> Mapping[str, EventSpec]:
    """Return the Event of each metric that no node has, once similar metrics are known."""
    similar = {metric: similar_to(metric) for metric in decision.not_found}
    return {metric: _event(metric, names) for metric, names in similar.items() if names is not None}


def _event(metric: str, similar: Sequence[str]) -> EventSpec:
    sentence = f"no node has the metric {metric}{_hint(similar)}"
    return EventSpec("Warning", "MetricNotFound", f"{sentence}; see the condition {METRICS_FOUND}")


def _hint(similar: Sequence[str] | None) -> str:
    return f"; similar metrics that nodes have: {', '.join(similar)}" if similar else ""


def _joined(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return "; ".join([*texts[:_NAMED], *more])
