"""Builds the status of a policy: compliance, problems and missing readings."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import union
from evaluator.core.model.node_labels import LabelConflict
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.metrics_found import SimilarTo
from evaluator.core.policy.types import Policy, StrategyName
from evaluator.features.node_actions.report import limit_conditions
from evaluator.features.node_actions.types import PolicyActions
from evaluator.features.status import enforcement
from evaluator.features.status.conditions import (
    PolicyCondition,
    conditions,
    listed,
    missing,
    missing_phrases,
)
from evaluator.features.status.enforcement import NO_EFFECTS, Effects
from evaluator.features.status.label_conflicts import ConflictsByLabel
from evaluator.features.status.pod_plan import NO_PODS, PodCounts
from plimsoll.text import counted

_COMPLIANCE_STRATEGIES = (StrategyName.DONTSCHEDULE, StrategyName.DESCHEDULE)
"""The strategies that determine compliance; labels are not violations."""


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """The `status` of a policy without times, so that equal statuses need no write."""

    compliance: str
    message: str
    problems: tuple[str, ...]
    generation: int
    violating: int
    observed: bool
    conditions: tuple[PolicyCondition, ...]
    pods: PodCounts = NO_PODS

    def body(self, since: Callable[[PolicyCondition], str]) -> dict[str, Any]:
        """Return the status as a JSON object; `since` returns a condition's transition time (RFC 3339)."""
        return {
            "compliance": self.compliance,
            "message": self.message,
            "violatingNodes": self.violating,
            "enforcement": "Observe" if self.observed else "Enforce",
            "pods": self.pods._asdict(),
            "observedGeneration": self.generation,
            "conditions": [c.body(since(c), self.generation) for c in self.conditions],
        }


def statuses(
    decisions: Decisions,
    conflicts: Iterable[LabelConflict],
    effects: Effects = NO_EFFECTS,
    pods_of: Callable[[Policy], PodCounts] = lambda _policy: NO_PODS,
    similar_to: SimilarTo = lambda _metric: (),
    actions: Mapping[PolicyKey, PolicyActions] = MappingProxyType({}),
) -> Iterator[tuple[PolicyKey, PolicyStatus]]:
    """Yield the status of every policy: its decision, conflicts, what enforcing it changes, its pods and its actions."""
    by_label = ConflictsByLabel(conflicts)
    for key, decision in decisions.policies.items():
        status = _status(decision, by_label, decisions.table, effects, similar_to, actions.get(key))
        yield key, replace(status, pods=pods_of(decision.policy))


def _status(
    decision: Decision,
    by_label: ConflictsByLabel,
    table: MetricTable,
    effects: Effects,
    similar_to: SimilarTo,
    acting: PolicyActions | None,
) -> PolicyStatus:
    nodes = len(table.nodes)
    states = [s for name in _COMPLIANCE_STRATEGIES if (s := decision.states.get(name)) is not None]
    violating = table.nodes.at(union((s.found.violated for s in states), table.nodes))
    not_taken = (*acting.problems, *acting.conflicts) if acting else ()
    problems = (*decision.problems, *not_taken, *_conflict_problems(decision, by_label))
    unknown = missing_phrases(missing(decision, *decision.policy.strategies.values()), nodes)
    if violating:
        by_missing = int(
            np.count_nonzero(union((s.violated_by_missing for s in states), table.nodes))
        )
        suffix = f", {by_missing} of them because of missing readings" if by_missing else ""
        compliance, message = "Violated", [f"violated on {listed(violating, nodes)}{suffix}"]
    elif unknown:
        compliance, message = "Unknown", []
    else:
        compliance, message = "Compliant", [f"no violation on {counted(nodes, 'node')}"]
    observed = ["only observed"] if decision.policy.observed else []
    found = {"problem": len(problems), "warning": len(decision.policy.warnings)}
    counts = [counted(number, noun) for noun, number in found.items() if number]
    summary = [f"{' and '.join(counts)}, see the condition Valid"] if counts else []
    return PolicyStatus(
        compliance,
        "; ".join([*observed, *message, *unknown, *summary]),
        problems,
        decision.policy.generation,
        len(violating),
        decision.policy.observed,
        (
            *conditions(decision, table, problems, similar_to),
            enforcement.condition(decision, table, effects),
            *limit_conditions(acting),
        ),
    )


def _conflict_problems(decision: Decision, by_label: ConflictsByLabel) -> Iterator[str]:
    return (
        f"label {conflict.key} on {conflict.node} is owned by another field manager (value "
        f"{conflict.theirs!r}): not set"
        for conflict in by_label.of(decision)
    )
