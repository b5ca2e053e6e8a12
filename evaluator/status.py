"""A policy's status, in words: does the cluster comply, what is wrong with the policy, what is not known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.decisions import Decision, Decisions
from evaluator.labels import Conflict
from evaluator.policy import PolicyKey

_NAMED = 5
"""How many nodes a sentence names before it only counts them."""


@dataclass(frozen=True, slots=True)
class Status:
    """What is written to `status`, times left out: two equal ones need no second write."""

    compliance: str
    message: str
    problems: tuple[str, ...]
    generation: int

    def body(self, since: str) -> dict[str, Any]:
        """The status as the API server stores it; `since` (RFC 3339) is when its condition last changed."""
        problem = "; ".join(self.problems)
        return {
            "compliance": self.compliance,
            "message": self.message,
            "observedGeneration": self.generation,
            "conditions": [
                {
                    "type": "Valid",
                    "status": "False" if problem else "True",
                    "reason": "Problems" if problem else "Understood",
                    "message": problem or "every part of the policy is in force",
                    "lastTransitionTime": since,
                    "observedGeneration": self.generation,
                }
            ],
        }


def statuses(decisions: Decisions, conflicts: Sequence[Conflict]) -> Mapping[PolicyKey, Status]:
    """The status of every policy, given what was decided and which labels could not be written."""
    return {
        key: _status(decision, conflicts, len(decisions.view.nodes))
        for key, decision in decisions.policies.items()
    }


def _status(decision: Decision, conflicts: Sequence[Conflict], nodes: int) -> Status:
    violating = sorted({*decision.dontschedule, *decision.deschedule})
    problems = (*decision.problems, *_refused(decision, conflicts))
    unknown = [
        f"no usable reading of {metric} on {_list(missing, nodes)}"
        for metric, missing in decision.missing.items()
    ]
    if violating:
        compliance, says = "Violated", [f"violated on {_list(violating, nodes)}"]
    elif unknown:
        compliance, says = "Unknown", []
    else:
        compliance, says = "Compliant", [f"no violation on {_count(nodes, 'node')}"]
    told = [f"{_count(len(problems), 'problem')}, see the condition Valid"] if problems else []
    message = "; ".join([*says, *unknown, *told])
    return Status(compliance, message, problems, decision.policy.generation)


def _refused(decision: Decision, conflicts: Sequence[Conflict]) -> list[str]:
    return [
        f"label {conflict.key} on {conflict.node} belongs to somebody else (value "
        f"{conflict.theirs!r}): not set"
        for conflict in conflicts
        if decision.labels.get(conflict.node, {}).get(conflict.key) == conflict.value
    ]


def _list(names: Sequence[str], total: int) -> str:
    shown = ", ".join(names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} of {_count(total, 'node')} ({shown}{more})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
