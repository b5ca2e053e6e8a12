"""A policy's status, in words: does the cluster comply, what is wrong with the policy, what is not known."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluator.model.names import PolicyKey
from evaluator.model.node_index import union
from evaluator.model.node_labels import LabelConflict
from evaluator.plans.conditions import PolicyCondition, conditions, lacks, listed, missing
from evaluator.plans.label_conflicts import ConflictsByLabel
from evaluator.policy.decide import Decision, Decisions
from evaluator.policy.evaluate import MetricTable
from evaluator.policy.types import StrategyName
from plimsoll.text import counted

_KEPT_OFF = (StrategyName.DONTSCHEDULE, StrategyName.DESCHEDULE)
"""The strategies whose violators a policy is about; a label that is set is no violation."""


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """What is written to `status`, times left out: two equal ones need no second write."""

    compliance: str
    message: str
    problems: tuple[str, ...]
    generation: int
    violating: int
    conditions: tuple[PolicyCondition, ...]

    def body(self, since: Callable[[PolicyCondition], str]) -> dict[str, Any]:
        """The status as the API server stores it; `since` says when a condition became what it is (RFC 3339)."""
        return {
            "compliance": self.compliance,
            "message": self.message,
            "violatingNodes": self.violating,
            "observedGeneration": self.generation,
            "conditions": [c.body(since(c), self.generation) for c in self.conditions],
        }


def statuses(
    decisions: Decisions, conflicts: Iterable[LabelConflict]
) -> Iterator[tuple[PolicyKey, PolicyStatus]]:
    """The status of every policy, one after the other, given what was decided and which labels could not be written."""
    disputes = ConflictsByLabel(conflicts)
    for key, decision in decisions.policies.items():
        yield key, _status(decision, disputes, decisions.table)


def _status(decision: Decision, disputes: ConflictsByLabel, table: MetricTable) -> PolicyStatus:
    nodes = len(table.nodes)
    states = [s for name in _KEPT_OFF if (s := decision.states.get(name)) is not None]
    violating = table.nodes.at(union((s.found.violated for s in states), table.nodes))
    problems = (*decision.problems, *_refused(decision, disputes))
    unknown = lacks(missing(decision, *decision.policy.strategies.values()), nodes)
    if violating:
        lacking = int(np.count_nonzero(union((s.violated_by_missing for s in states), table.nodes)))
        want = f", {lacking} of them for want of a reading" if lacking else ""
        compliance, says = "Violated", [f"violated on {listed(violating, nodes)}{want}"]
    elif unknown:
        compliance, says = "Unknown", []
    else:
        compliance, says = "Compliant", [f"no violation on {counted(nodes, 'node')}"]
    told = [f"{counted(len(problems), 'problem')}, see the condition Valid"] if problems else []
    return PolicyStatus(
        compliance,
        "; ".join([*says, *unknown, *told]),
        problems,
        decision.policy.generation,
        len(violating),
        conditions(decision, table, problems),
    )


def _refused(decision: Decision, disputes: ConflictsByLabel) -> Iterator[str]:
    return (
        f"label {conflict.key} on {conflict.node} belongs to somebody else (value "
        f"{conflict.theirs!r}): not set"
        for conflict in disputes.of(decision)
    )
