"""A policy's status, in words: does the cluster comply, what is wrong with the policy, what is not known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.conditions import Condition, conditions, counted, lacks, listed, missing
from evaluator.decisions import Decision, Decisions
from evaluator.labels import Conflict
from evaluator.policy import PolicyKey, StrategyName
from evaluator.rules import View


@dataclass(frozen=True, slots=True)
class Status:
    """What is written to `status`, times left out: two equal ones need no second write."""

    compliance: str
    message: str
    problems: tuple[str, ...]
    generation: int
    violating: int
    conditions: tuple[Condition, ...]

    def body(self, since: Callable[[Condition], str]) -> dict[str, Any]:
        """The status as the API server stores it; `since` says when a condition became what it is (RFC 3339)."""
        return {
            "compliance": self.compliance,
            "message": self.message,
            "violatingNodes": self.violating,
            "observedGeneration": self.generation,
            "conditions": [c.body(since(c), self.generation) for c in self.conditions],
        }


def statuses(decisions: Decisions, conflicts: Sequence[Conflict]) -> Mapping[PolicyKey, Status]:
    """The status of every policy, given what was decided and which labels could not be written."""
    return {
        key: _status(decision, conflicts, decisions.view)
        for key, decision in decisions.policies.items()
    }


def _status(decision: Decision, conflicts: Sequence[Conflict], view: View) -> Status:
    nodes = len(view.nodes)
    violating = sorted({*decision.dontschedule, *decision.deschedule})
    problems = (*decision.problems, *_refused(decision, conflicts))
    unknown = lacks(missing(decision, *decision.policy.strategies.values()), nodes)
    if violating:
        lacking = _lacking(decision)
        want = f", {lacking} of them for want of a reading" if lacking else ""
        compliance, says = "Violated", [f"violated on {listed(violating, nodes)}{want}"]
    elif unknown:
        compliance, says = "Unknown", []
    else:
        compliance, says = "Compliant", [f"no violation on {counted(nodes, 'node')}"]
    told = [f"{counted(len(problems), 'problem')}, see the condition Valid"] if problems else []
    return Status(
        compliance,
        "; ".join([*says, *unknown, *told]),
        problems,
        decision.policy.generation,
        len(violating),
        conditions(decision, view, problems),
    )


def _lacking(decision: Decision) -> int:
    """On how many of the violating nodes a reading is missing that the policy does not do without."""
    nodes: set[int] = set()
    for name in (StrategyName.DONTSCHEDULE, StrategyName.DESCHEDULE):
        if (standing := decision.standings.get(name)) is not None:
            nodes |= {*standing.lacking.nonzero()[0].tolist()}
    return len(nodes)


def _refused(decision: Decision, conflicts: Sequence[Conflict]) -> list[str]:
    return [
        f"label {conflict.key} on {conflict.node} belongs to somebody else (value "
        f"{conflict.theirs!r}): not set"
        for conflict in conflicts
        if decision.labels.get(conflict.node, {}).get(conflict.key) == conflict.value
    ]
