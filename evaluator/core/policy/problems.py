"""The problems of a policy that its readings show, beside those of its text.

One of them is that its first evaluation refused every node to its pods, which is rarely intended. That holds until a node
is allowed, or the policy is edited. After a restart it is read from the status in the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evaluator.core.model.node_index import Mask
from evaluator.core.policy.durations import StrategyState
from evaluator.core.policy.evaluate import MetricColumn
from evaluator.core.policy.labeling import LabelingResult
from evaluator.core.policy.reductions import uses_of
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy

VALID = "Valid"
"""The condition that has a policy's problems."""
AWAITED = "ReadingsAwaited"
"""The reason of a condition while first readings are awaited."""

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
    return f"no node has the metric {metric}: see the condition MetricsFound"


def not_found(policy: Policy, columns: Iterable[MetricColumn]) -> tuple[str, ...]:
    """Return the metrics that no node has; features compute the derived ones."""
    return tuple(
        column.metric
        for column in columns
        if column.metric not in policy.derived_metrics and column.presence.not_found
    )


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
