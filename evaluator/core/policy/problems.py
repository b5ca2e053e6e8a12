"""The problems of a policy that its readings show, beside those of its text, and the condition MetricsFound.

One of them is that its first evaluation refused every node to its pods, which is rarely intended. That holds until a node
is allowed, or the policy is edited. After a restart it is read from the status in the cluster.

Another is a metric that no node has, although nodes reported without it. The condition names similar ones.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from evaluator.core.model.events import EventSpec
from evaluator.core.model.node_index import Mask
from evaluator.core.policy.durations import StrategyState
from evaluator.core.policy.evaluate import MetricColumn, MetricTable
from evaluator.core.policy.labeling import LabelingResult
from evaluator.core.policy.reductions import uses_of
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from plimsoll.text import counted

VALID = "Valid"
"""The condition that has a policy's problems."""
AWAITED = "ReadingsAwaited"
"""The reason of a condition while first readings are awaited."""
METRICS_FOUND = "MetricsFound"
"""The condition that says which metrics of a policy no node has."""

SimilarTo = Callable[[str], Sequence[str] | None]
"""Returns metrics that nodes have and that are similar to one that no node has; None until that is known."""

_NAMED = 20
"""Metrics that a message names; the others are counted."""

_EVERY_NODE = "every node at its first evaluation"


def problems(
    policy: Policy,
    columns: Sequence[MetricColumn],
    labeled: LabelingResult,
    absent: Sequence[str],
) -> tuple[str, ...]:
    """Return all problems; `absent`: the metrics that no node has."""
    ambiguous = [s.ambiguity(uses_of(policy, s.metric)) for s in columns if s.ambiguous]
    contradicted = [contradiction.problem for contradiction in labeled.contradictions]
    faults = [column.fault for column in columns if column.fault]
    unknown = map(absence, absent)
    return (*policy.problems, *unknown, *ambiguous, *contradicted, *faults)


def absence(metric: str) -> str:
    """Return the problem of a metric that no node has; the text is constant."""
    return f"no node has the metric {metric}: see the condition {METRICS_FOUND}"


def not_found(policy: Policy, columns: Iterable[MetricColumn]) -> tuple[str, ...]:
    """Return the metrics that no node has; features compute the derived ones."""
    return tuple(
        column.metric
        for column in columns
        if column.metric not in policy.derived_metrics and column.presence.not_found
    )


def metrics_found(
    policy: Policy, absent: Sequence[str], table: MetricTable, similar_to: SimilarTo
) -> tuple[str, str, str]:
    """Return status, reason and message of the condition MetricsFound; `absent`: the metrics that no node has.

    While a first report is pending, or a source cannot be read, it says nothing of a metric.
    """
    metrics = sorted(policy.measured_metrics)
    if absent:
        return (
            "False",
            "MetricsNotFound",
            _joined(
                [
                    f"{metric} is on none of {counted(table.column(metric).presence.lacking, 'node')}{_hint(similar_to(metric))}"
                    for metric in absent
                ]
            ),
        )
    waiting = [metric for metric in metrics if not table.column(metric).presence.having]
    if faults := [fault for metric in waiting if (fault := table.column(metric).fault)]:
        return "Unknown", "SourceFailing", _joined(faults)
    if waiting:
        return "Unknown", "ReadingsAwaited", f"no node has reported {_joined(waiting)} yet"
    return "True", "AllFound", "some node has each metric" if metrics else "it names no metrics"


def with_similar(known: Sequence[str], absent: Sequence[str], similar_to: SimilarTo) -> list[str]:
    """Return problems for where a policy's conditions are not shown: an absent metric with similar ones."""
    hinted = {
        absence(metric): f"no node has the metric {metric}{_hint(similar_to(metric))}"
        for metric in absent
    }
    return [hinted.get(problem, problem) for problem in known]


def not_found_events(absent: Sequence[str], similar_to: SimilarTo) -> Mapping[str, EventSpec]:
    """Return the Event of each metric that no node has, once similar metrics are known."""
    similar = {metric: similar_to(metric) for metric in absent}
    return {metric: _event(metric, names) for metric, names in similar.items() if names is not None}


def _event(metric: str, similar: Sequence[str]) -> EventSpec:
    sentence = f"no node has the metric {metric}{_hint(similar)}"
    return EventSpec("Warning", "MetricNotFound", f"{sentence}; see the condition {METRICS_FOUND}")


def _hint(similar: Sequence[str] | None) -> str:
    return f"; similar metrics that nodes have: {', '.join(similar)}" if similar else ""


def _joined(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return "; ".join([*texts[:_NAMED], *more])


def refuses_all(
    states: Mapping[StrategyName, StrategyState], unreported: Mask, earlier: bool | None
) -> bool | None:
    """Return whether a policy refused every node from the first evaluation of this generation on; None before that.

    `earlier`: the previous result for this generation.
    """
    state = states.get(StrategyName.DONTSCHEDULE)
    if earlier is False or state is None or not unreported.size or unreported.any():
        return earlier
    return bool(state.found.violated.all())


def stable_problems(
    policy: Policy, columns: Sequence[MetricColumn], labeled: LabelingResult
) -> tuple[str, ...]:
    """Return the problems that an operator can fix at the metrics source or in the policy, with constant text."""
    ambiguous = [s.stable_problem(uses_of(policy, s.metric)) for s in columns if s.ambiguous]
    return (
        *ambiguous,
        *(contradiction.stable_problem for contradiction in labeled.contradictions),
    )


def refusal_problem(policy: Policy) -> str:
    """Return the problem of a policy that refused every node from the start; the text is constant (used in Events)."""
    name = StrategyName.DONTSCHEDULE
    if policy.observed:
        return f"{name} would refuse {_EVERY_NODE}: if enforced, no pod of the policy can be placed"
    return (
        f"{name} refused {_EVERY_NODE}: no pod of the policy can be placed; if that is not intended, set its annotation "
        "plimsoll.io/enforcement: observe"
    )


def reported_refusal(policy: Policy) -> bool | None:
    """Return the result in the policy's status: whether it refused every node; None if it was not evaluated yet.

    It counts for the first decision of a process; a status that is written later may be that of half the nodes.
    """
    conditions = _conditions(policy.status, policy.generation)
    known = {str(condition.get("type")): condition for condition in conditions}
    if _EVERY_NODE in str(known.get(VALID, {}).get("message")):
        return True
    evaluated = known.get(StrategyName.DONTSCHEDULE.row.condition)
    return False if evaluated is not None and evaluated.get("reason") != AWAITED else None


def _conditions(status: Mapping[str, Any], generation: int) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of a generation from an unvalidated status."""
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("observedGeneration") == generation:
            yield condition
