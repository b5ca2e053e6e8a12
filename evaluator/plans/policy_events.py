"""What is to be told about a policy in events: which strategies are violated, and what is wrong with it.

The texts are constant, so that what happens again is counted and not told anew; how many nodes there are, and which, is
in the conditions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evaluator.plans.conditions import TYPES, VALID
from evaluator.plans.label_conflicts import ConflictsByLabel
from evaluator.policy.decide import Decision
from evaluator.policy.types import StrategyName

VIOLATIONS = {
    name: kind for name, kind in TYPES.items() if name is not StrategyName.SCHEDULEONMETRIC
}


@dataclass(frozen=True, slots=True)
class EventSpec:
    """An event: its type, its reason in CamelCase, and a sentence."""

    type: str
    reason: str
    message: str


def violated(name: StrategyName) -> EventSpec:
    """A strategy has found its first violator."""
    where = f"the condition {TYPES[name]} names the nodes"
    return EventSpec("Warning", "StrategyViolated", f"{name} is violated: {where}")


def cleared(name: StrategyName) -> EventSpec:
    """It has none any more."""
    return EventSpec("Normal", "StrategyCleared", f"{name} is no longer violated on any node")


def problem(sentence: str) -> EventSpec:
    """Something about the policy keeps a part of it from working."""
    return EventSpec("Warning", "PolicyProblem", sentence)


@dataclass(frozen=True, slots=True)
class ReportedState:
    """What is so at one moment, as far as events tell of it."""

    violated: frozenset[StrategyName] = frozenset()
    problems: frozenset[EventSpec] = frozenset()


def reported_state(decision: Decision, disputes: ConflictsByLabel) -> ReportedState:
    """How a policy stands, given which labels could not be set."""
    return ReportedState(
        frozenset(n for n, found in decision.states.items() if found.found.violated.any()),
        frozenset(map(problem, _problems(decision, disputes))),
    )


def _problems(decision: Decision, disputes: ConflictsByLabel) -> Iterator[str]:
    """What is wrong with the policy itself, and that something else is: its words may vary with the readings."""
    yield from decision.policy.problems
    yield from decision.stable_problems
    told = len(decision.policy.problems) + len(decision.stable_problems)
    if len(decision.problems) > told or any(disputes.of(decision)):
        yield f"a part of the policy does not work as things are: the condition {VALID} says which"


def previously_reported(
    status: Mapping[str, Any], now: ReportedState, generation: int
) -> ReportedState:
    """What events have told before this process came, by the status in the cluster; `now` is what they could tell.

    Which problems there were is not in a status in a form to rely on: that there were any is taken for these.
    """
    conditions = status.get("conditions")
    known = [c for c in (conditions if isinstance(conditions, list) else ()) if isinstance(c, dict)]
    true = {str(c.get("type")) for c in known if c.get("status") == "True"}
    flawed = any(
        c.get("type") == VALID
        and c.get("status") == "False"
        and c.get("observedGeneration") == generation
        for c in known
    )
    return ReportedState(
        frozenset(name for name, kind in VIOLATIONS.items() if kind in true),
        now.problems if flawed else frozenset(),
    )


def diff(before: ReportedState, now: ReportedState) -> list[EventSpec]:
    """What events have to tell."""
    return [
        *(violated(name) for name in sorted(now.violated - before.violated)),
        *(cleared(name) for name in sorted(before.violated - now.violated)),
        *sorted(now.problems - before.problems, key=lambda notice: notice.message),
    ]
