"""The conditions of a policy's status: one that says whether all of it is in force, and one for each of its strategies.

Names and fields follow Kubernetes' conventions:
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.policy.decide import Decision
from evaluator.policy.evaluate import MetricTable
from evaluator.policy.rule_options import WhenMissing
from evaluator.policy.types import Strategy, StrategyName
from plimsoll.text import counted

VALID = "Valid"

TYPES: Mapping[StrategyName, str] = {
    StrategyName.DONTSCHEDULE: "DontScheduleViolated",
    StrategyName.SCHEDULEONMETRIC: "ScheduleOnMetricReady",
    StrategyName.DESCHEDULE: "DescheduleViolated",
    StrategyName.LABELING: "LabelingViolated",
}
"""Strategy → the type of its condition."""

_NAMED = 5
"""How many nodes a sentence names before it only counts them."""
_TOLD = 60
_ROOM = 30_000
"""How many problems a message tells, and characters of them: Kubernetes allows it 32,768."""


@dataclass(frozen=True, slots=True)
class PolicyCondition:
    """One condition; when it became so is not part of it, so that two equal ones need no second write."""

    type: str
    status: str
    reason: str
    message: str

    def body(self, since: str, generation: int) -> dict[str, Any]:
        """The condition as the API server stores it; `since` is RFC 3339."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since,
            "observedGeneration": generation,
        }


def conditions(
    decision: Decision, table: MetricTable, problems: Sequence[str]
) -> tuple[PolicyCondition, ...]:
    """All conditions of a policy; `problems` is what is wrong with it."""
    if problems:
        valid = PolicyCondition(VALID, "False", "Problems", _told(problems))
    else:
        valid = PolicyCondition(VALID, "True", "Understood", "every part of the policy is in force")
    return (valid, *_of_strategies(decision, table))


def _told(problems: Sequence[str]) -> str:
    lengths = itertools.accumulate(len(problem) + 2 for problem in problems[:_TOLD])
    told = sum(length <= _ROOM for length in lengths)
    more = [f"and {len(problems) - told} more"] if len(problems) > told else []
    return "; ".join([*problems[:told], *more])


def _of_strategies(decision: Decision, table: MetricTable) -> Iterator[PolicyCondition]:
    for name, strategy in decision.policy.strategies.items():
        if name is StrategyName.SCHEDULEONMETRIC:
            status, reason, message = _ranking(decision, table)
        else:
            status, reason, message = _violation(name, strategy, decision, table)
        yield PolicyCondition(TYPES[name], status, reason, message)


def _violation(
    name: StrategyName, strategy: Strategy, decision: Decision, table: MetricTable
) -> tuple[str, str, str]:
    state = decision.states[name]
    violated = table.nodes.at(state.found.violated)
    if violated:
        lacking = state.missing_violations
        want = f", {lacking} of them for want of a reading" if lacking else ""
        reason = "ReadingsMissing" if lacking == len(violated) else "RulesViolated"
        return "True", reason, f"violated on {listed(violated, len(table.nodes))}{want}"
    if not strategy.rules:
        return "False", "NoRules", "it has no rules"
    if strategy.all_of and strategy.impossible:
        return "False", "RuleLeftOut", "one of its rules was left out, so not all can hold"
    if decision.unreported:
        nodes = listed(table.nodes.at(table.unreported(decision.policy.metrics)), len(table.nodes))
        return "Unknown", "ReadingsAwaited", f"the first readings of {nodes} are on their way"
    if unknown := missing(decision, strategy):
        return "Unknown", "ReadingsMissing", "; ".join(lacks(unknown, len(table.nodes)))
    return "False", "NotViolated", f"no violation on {counted(len(table.nodes), 'node')}"


def _ranking(decision: Decision, table: MetricTable) -> tuple[str, str, str]:
    if decision.ranking is None:
        return "False", "NoRules", "it has no rules"
    metric, ranked = decision.ranking.rule.metric, decision.ranking.count
    if ranked:
        nodes = f"{ranked} of {counted(len(table.nodes), 'node')}"
        return "True", "NodesRanked", f"{nodes} ranked by {metric}"
    return "False", "ReadingsMissing", f"no node has a usable reading of {metric}"


def missing(decision: Decision, *strategies: Strategy) -> Mapping[str, Sequence[str]]:
    """Metric → nodes whose reading is missing, where that leaves open whether they comply."""
    asked = {
        rule.metric
        for strategy in strategies
        for rule in strategy.rules
        if rule.options.when_missing is WhenMissing.IGNORE
    }
    return {metric: nodes for metric, nodes in decision.missing.items() if metric in asked}


def lacks(unknown: Mapping[str, Sequence[str]], total: int) -> list[str]:
    """A phrase for each metric that has no usable reading on some nodes."""
    return [f"no usable reading of {m} on {listed(nodes, total)}" for m, nodes in unknown.items()]


def listed(names: Sequence[str], total: int) -> str:
    """`2 of 3 nodes (a, b)`; of many, only some are named."""
    shown = ", ".join(names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} of {counted(total, 'node')} ({shown}{more})"
