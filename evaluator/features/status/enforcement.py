"""The condition Enforced: whether a policy is enforced, and what enforcing it changes or observing it undoes."""

from collections.abc import Iterable

from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.report import Effects, PolicyCondition, listed

ENFORCED = "Enforced"
"""The condition's type."""


def condition(
    decision: Decision, table: MetricTable, effects: Iterable[Effects]
) -> PolicyCondition:
    """Return the condition Enforced: what enforcing the policy would change, or what observing it would undo."""
    policy = decision.policy
    if not policy.observed:
        message = "the policy is enforced"
        if labelled := table.nodes.at(assignments_of(decision.labels).labelled):
            nodes = listed(labelled, len(table.nodes))
            message += f"; when it is observed or deleted, its labels are taken off {nodes}"
        return PolicyCondition(ENFORCED, "True", "Enforced", message)
    phrases = [one.phrase for part in effects for one in part.of(decision, table) if one.names]
    would = "; ".join(phrases) or "change nothing now"
    return PolicyCondition(
        ENFORCED, "False", "Observed", f"only observed, by {policy.observed_by}; would {would}"
    )
