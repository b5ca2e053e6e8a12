"""The problems of a policy that its readings show, beside those of its text."""

from collections.abc import Iterable, Mapping, Sequence

from evaluator.core.model.node_index import Mask
from evaluator.core.policy.durations import StrategyState
from evaluator.core.policy.evaluate import MetricColumn
from evaluator.core.policy.labeling import LabelingResult
from evaluator.core.policy.reductions import uses_of
from evaluator.core.policy.types import Policy, StrategyName
from evaluator.features.scorers.derived import DERIVED_METRICS


def problems(
    policy: Policy, columns: Sequence[MetricColumn], labeled: LabelingResult
) -> tuple[str, ...]:
    """Return all problems."""
    ambiguous = [s.ambiguity(uses_of(policy, s.metric)) for s in columns if s.ambiguous]
    contradicted = [contradiction.problem for contradiction in labeled.contradictions]
    faults = [column.fault for column in columns if column.fault]
    absent = [
        f"no node has the metric {metric}: see the condition MetricsFound"
        for metric in not_found(columns)
    ]
    return (*policy.problems, *absent, *ambiguous, *contradicted, *faults)


def not_found(columns: Iterable[MetricColumn]) -> tuple[str, ...]:
    """Return the metrics that no node has; scorers compute the derived ones."""
    return tuple(
        column.metric
        for column in columns
        if column.metric not in DERIVED_METRICS and column.presence.not_found
    )


def refuses_all(
    states: Mapping[StrategyName, StrategyState], unreported: Mask, earlier: bool | None
) -> bool | None:
    """Return whether a policy refused every node from the first evaluation of this generation on; None before that.

    `earlier`: the previous result for this generation.
    """
    state = states.get(StrategyName.DONTSCHEDULE)
    if state is None or not unreported.size or unreported.any():
        return earlier
    return earlier is not False and bool(state.found.violated.all())


def stable_problems(
    policy: Policy, columns: Sequence[MetricColumn], labeled: LabelingResult
) -> tuple[str, ...]:
    """Return the problems that an operator can fix at the metrics source or in the policy, with constant text."""
    ambiguous = [s.stable_problem(uses_of(policy, s.metric)) for s in columns if s.ambiguous]
    return (
        *ambiguous,
        *(contradiction.stable_problem for contradiction in labeled.contradictions),
    )
