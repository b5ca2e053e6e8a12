"""Builds the status of a policy: compliance, problems and missing readings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluator.core.cache.policy_pods import NO_PODS, PodCounts
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import union
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.metrics_found import SimilarTo
from evaluator.core.policy.strategies import COMPLIANCE
from evaluator.core.policy.types import Policy
from evaluator.core.report import (
    Effects,
    PartsOf,
    PolicyCondition,
    PolicyPart,
    listed,
    no_parts,
)
from evaluator.features.status.conditions import conditions, enforced, missing, missing_phrases
from plimsoll.text import counted


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
    effects: Iterable[Effects] = (),
    pods_of: Callable[[Policy], PodCounts] = lambda _policy: NO_PODS,
    similar_to: SimilarTo = lambda _metric: (),
    parts_of: PartsOf = no_parts,
) -> Iterator[tuple[PolicyKey, PolicyStatus]]:
    """Yield the status of every policy: its decision, what enforcing it changes, its pods, and the parts of features."""
    effects = tuple(effects)
    for key, decision in decisions.policies.items():
        status = _status(decision, decisions.table, effects, similar_to, tuple(parts_of(decision)))
        yield key, replace(status, pods=pods_of(decision.policy))


def _status(
    decision: Decision,
    table: MetricTable,
    effects: Sequence[Effects],
    similar_to: SimilarTo,
    parts: Sequence[PolicyPart],
) -> PolicyStatus:
    nodes = len(table.nodes)
    states = [s for name in COMPLIANCE if (s := decision.states.get(name)) is not None]
    violating = table.nodes.at(union((s.found.violated for s in states), table.nodes))
    problems = (
        *decision.problems,
        *(problem for part in parts for problem in part.problems),
        *(problem for part in parts for problem in part.varying_problems),
    )
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
    numbers = {"problem": len(problems), "warning": len(decision.policy.warnings)}
    counts = [counted(number, noun) for noun, number in numbers.items() if number]
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
            enforced(decision, table, effects),
            *(condition for part in parts for condition in part.conditions),
        ),
    )
