"""Builds the status of a policy: compliance, problems and missing readings; selects its Events.

Messages of Events are constant, so that repeated ones are counted instead of written again; the conditions name the nodes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from evaluator.core.cache.policy_pods import NO_PODS, PodCounts
from evaluator.core.model.events import EventSpec
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import union
from evaluator.core.policy.annotations import IN_FORCE, record
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.problems import METRICS_FOUND, VALID, SimilarTo
from evaluator.core.policy.strategies import COMPLIANCE, StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.policy_status import (
    Effects,
    Episode,
    PartsOf,
    PolicyCondition,
    PolicyPart,
    listed,
    no_parts,
)
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.features.status.conditions import (
    WARNINGS,
    absent_phrases,
    conditions,
    enforced,
    missing,
    missing_phrases,
)
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
    annotations: tuple[str, ...] = ()
    """Those in force, as `annotations.record` returns them."""

    def body(self, since: Callable[[PolicyCondition], str]) -> dict[str, Any]:
        """Return the status as a JSON object; `since` returns a condition's transition time (RFC 3339)."""
        return {
            "compliance": self.compliance,
            "message": self.message,
            "violatingNodes": self.violating,
            "enforcement": "Observe" if self.observed else "Enforce",
            IN_FORCE: list(self.annotations),
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
    cause_of: CauseOf = no_cause,
) -> Iterator[tuple[PolicyKey, PolicyStatus]]:
    """Yield the status of every policy: its decision, what enforcing it changes, its pods, and the parts of features.

    `cause_of`: of readings, such as their devices.
    """
    effects, table = tuple(effects), decisions.table
    for key, decision in decisions.policies.items():
        yield key, status_of(decision, table, effects, pods_of, similar_to, parts_of, cause_of)


def status_of(
    decision: Decision,
    table: MetricTable,
    effects: Sequence[Effects],
    pods_of: Callable[[Policy], PodCounts],
    similar_to: SimilarTo,
    parts_of: PartsOf,
    cause_of: CauseOf,
) -> PolicyStatus:
    """Return the status of one policy, as `statuses`."""
    parts = tuple(parts_of(decision))
    status = _status(decision, table, effects, similar_to, parts, cause_of)
    return replace(status, pods=pods_of(decision.policy))


def _status(
    decision: Decision,
    table: MetricTable,
    effects: Sequence[Effects],
    similar_to: SimilarTo,
    parts: Sequence[PolicyPart],
    cause_of: CauseOf,
) -> PolicyStatus:
    nodes = len(table.nodes)
    states = [s for name in COMPLIANCE if (s := decision.states.get(name)) is not None]
    violating = table.nodes.names_at(union((s.found.violated for s in states), table.nodes))
    problems = (
        *decision.problems,
        *(problem for part in parts for problem in part.problems),
        *(problem for part in parts for problem in part.varying_problems),
    )
    strategies = decision.policy.strategies
    unknown = missing_phrases(missing(decision, *strategies.values()), nodes)
    absent = absent_phrases(decision, strategies, nodes)
    if violating:
        by_missing = int(
            np.count_nonzero(union((s.violated_by_missing for s in states), table.nodes))
        )
        suffix = f", {by_missing} of them because of missing readings" if by_missing else ""
        compliance, message = "Violated", [f"violated on {listed(violating, nodes)}{suffix}"]
    elif unknown or decision.undecided:
        compliance, message = "Unknown", []
    else:
        compliance, message = "Compliant", [f"no violation on {counted(nodes, 'node')}"]
    observed = ["only observed"] if decision.policy.observed else []
    warnings = _warnings(decision, parts)
    numbers = {"problem": len(problems), "warning": len(warnings)}
    counts = [counted(number, noun) for noun, number in numbers.items() if number]
    summary = [f"{' and '.join(counts)}, see the condition Valid"] if counts else []
    return PolicyStatus(
        compliance,
        "; ".join([*observed, *message, *unknown, *absent, *summary]),
        problems,
        decision.policy.generation,
        len(violating),
        decision.policy.observed,
        (
            *conditions(decision, table, problems, warnings, similar_to, cause_of),
            enforced(decision, table, effects),
            *(condition for part in parts for condition in part.conditions),
        ),
        annotations=record(decision.policy.annotations),
    )


def violated(name: StrategyName, *, observed: bool = False) -> EventSpec:
    """Return the event of a strategy's first violation."""
    where = f"the condition {name.row.condition} names the nodes"
    mode = " (only observed)" if observed else ""
    return EventSpec("Warning", "StrategyViolated", f"{name} is violated{mode}: {where}")


def cleared(name: StrategyName) -> EventSpec:
    """Return the event of a strategy without violations again."""
    return EventSpec("Normal", "StrategyCleared", f"{name} is no longer violated on any node")


def problem(sentence: str) -> EventSpec:
    """Return the event of a problem that keeps part of the policy from working."""
    return EventSpec("Warning", "PolicyProblem", sentence)


def warning(sentence: str) -> EventSpec:
    """Return the event of a valid part that is probably not intended."""
    return EventSpec("Warning", "PolicyWarning", sentence)


@dataclass(frozen=True, slots=True)
class ReportedState:
    """The state that events report."""

    violated: frozenset[StrategyName] = frozenset()
    problems: frozenset[EventSpec] = frozenset()
    observed: bool = False
    not_found: Mapping[str, EventSpec] = field(default_factory=dict)
    """By metric that no node has."""
    episodes: frozenset[Episode] = frozenset()
    """Those that are going on."""
    warnings: frozenset[EventSpec] = frozenset()


def reported_state(
    decision: Decision,
    parts: Sequence[PolicyPart] = (),
    not_found: Mapping[str, EventSpec] = MappingProxyType({}),
) -> ReportedState:
    """Return the current state of a policy: its decision, the parts of features, and events of metrics that were not found."""
    problems = (*_problems(decision, parts), *(x for part in parts for x in part.problems))
    return ReportedState(
        frozenset(n for n, state in decision.states.items() if state.found.violated.any()),
        frozenset(map(problem, problems)),
        decision.policy.observed,
        not_found,
        frozenset(
            episode for part in parts for episode, going_on in part.episodes.items() if going_on
        ),
        warnings=frozenset(map(warning, _warnings(decision, parts))),
    )


def _warnings(decision: Decision, parts: Iterable[PolicyPart]) -> tuple[str, ...]:
    """Return the warnings about the text of a policy, and those of features."""
    return (*decision.policy.warnings, *(text for part in parts for text in part.warnings))


def _problems(decision: Decision, parts: Iterable[PolicyPart]) -> Iterator[str]:
    """Yield the policy's problems with constant text, and one sentence for all others, whose text varies with readings.

    Metrics that no node has get events of their own, once similar metrics are known.
    """
    yield from decision.policy.problems
    yield from decision.stable_problems
    named = len(decision.policy.problems) + len(decision.stable_problems) + len(decision.not_found)
    if len(decision.problems) > named or any(part.varying_problems for part in parts):
        yield f"a part of the policy is not in force: see the condition {VALID}"


def previously_reported(
    status: Mapping[str, Any],
    now: ReportedState,
    generation: int,
    parts: Iterable[PolicyPart] = (),
) -> ReportedState:
    """Return the state reported before this process started, derived from the status in the cluster.

    A status does not list its problems reliably: if it had any, those in `now` count as reported.
    """
    conditions = status.get("conditions")
    known = [c for c in (conditions if isinstance(conditions, list) else ()) if isinstance(c, dict)]
    true = {str(c.get("type")) for c in known if c.get("status") == "True"}
    valid = [
        c for c in known if c.get("type") == VALID and c.get("observedGeneration") == generation
    ]
    flawed = any(c.get("status") == "False" for c in valid)
    warned = flawed or any(c.get("reason") == WARNINGS for c in valid)
    unknown = any(c.get("type") == METRICS_FOUND and c.get("status") == "False" for c in known)
    return ReportedState(
        frozenset(x for x in StrategyName if not x.row.ranks and x.row.condition in true),
        now.problems if flawed else frozenset(),
        now.observed,
        now.not_found if unknown else {},
        frozenset(e for part in parts for e in part.episodes if e.condition in true),
        now.warnings if warned else frozenset(),
    )


def diff(before: ReportedState, now: ReportedState) -> list[EventSpec]:
    """Return the events for the difference between two states."""
    return [
        *(violated(n, observed=now.observed) for n in sorted(now.violated - before.violated)),
        *(cleared(name) for name in sorted(before.violated - now.violated)),
        *(episode.began for episode in sorted(now.episodes - before.episodes)),
        *(episode.ended for episode in sorted(before.episodes - now.episodes)),
        *sorted(now.problems - before.problems, key=lambda spec: spec.message),
        *sorted(now.warnings - before.warnings, key=lambda spec: spec.message),
        *(now.not_found[name] for name in sorted(now.not_found.keys() - before.not_found.keys())),
    ]
