"""What enforcing a policy changes in the cluster now: nodes refused to its pods, nodes labelled, pods evicted."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from evaluator.core.cache.feasible_nodes import FeasibleNodes
from evaluator.core.cache.pods_by_policy import PodsByPolicy
from evaluator.core.model.node_index import union
from evaluator.core.policy.actions.types import Action
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.policy.types import StrategyName
from evaluator.core.policy.violations import violators
from evaluator.features.evictions import plan as evictions
from evaluator.features.status.conditions import PolicyCondition, listed
from plimsoll.text import counted

ENFORCED = "Enforced"
"""The condition's type."""

_NAMED = 5
"""Pods that a message names; the others are counted."""


class Effects:
    """The effects of policies on nodes and `running` pods. `evicting`: whether violating pods are evicted (--evict)."""

    def __init__(
        self, running: PodsByPolicy, feasible_nodes: FeasibleNodes, *, evicting: bool
    ) -> None:
        self.evicting = evicting
        self._running = running
        self._feasible_nodes = feasible_nodes

    def catching_up(self, decisions: Decisions) -> Iterator[None]:
        """Bring the evictable pods of observed policies up to date, in steps."""
        for decision in decisions.policies.values():
            if decision.policy.observed:
                self.evicted(decision)
                yield
        yield from self._feasible_nodes.catching_up()

    def evicted(self, decision: Decision) -> list[str]:
        """Return the pods to evict from violating nodes, whatever the rate, by name."""
        pods = self._running.of(decision.policy.key)
        return sorted(map(str, evictions.evictable(decision, pods, self._feasible_nodes)))


NO_EFFECTS = Effects(PodsByPolicy(lambda _pod: False), FeasibleNodes({}), evicting=False)
"""The effects in a cluster without pods."""


class _Change(NamedTuple):
    """One effect: its field in /explain, the phrase of the condition, and the nodes or pods."""

    field: str
    phrase: str
    names: Sequence[str]


def _changes(decision: Decision, table: MetricTable, effects: Effects) -> Iterator[_Change]:
    """Yield the effects of enforcing a policy now. Limits (--evictLimit, --maxActedNodes) are not applied."""
    total, actions = len(table.nodes), decision.policy.actions
    refused, labelled = refused_nodes(decision, table), labelled_nodes(decision, table)
    yield _Change("nodesRefused", f"refuse new pods on {listed(refused, total)}", refused)
    yield _Change("nodesLabelled", f"label {listed(labelled, total)}", labelled)
    acted = violating_nodes(decision, table) if actions.kinds - {Action.LABEL} else ()
    nodes = listed(acted, total)
    if Action.TAINT in actions.kinds:
        phrase = f"taint {nodes} with {actions.effect}, within the limit of {actions.limit}"
        yield _Change("nodesTainted", phrase, acted)
    if Action.CONDITION in actions.kinds:
        yield _Change("nodesWithCondition", f"set {actions.condition} on {nodes}", acted)
    pods = effects.evicted(decision)
    flag = "" if effects.evicting else " if --evict is set"
    yield _Change("podsEvicted", f"evict {_pods(pods)}{flag}", pods)


def condition(decision: Decision, table: MetricTable, effects: Effects) -> PolicyCondition:
    """Return the condition Enforced: what enforcing the policy would change, or what observing it would undo."""
    policy = decision.policy
    if not policy.observed:
        message = "the policy is enforced"
        if labelled := labelled_nodes(decision, table):
            nodes = listed(labelled, len(table.nodes))
            message += f"; when it is observed or deleted, its labels are taken off {nodes}"
        return PolicyCondition(ENFORCED, "True", "Enforced", message)
    phrases = [one.phrase for one in _changes(decision, table, effects) if one.names]
    would = "; ".join(phrases) or "change nothing now"
    return PolicyCondition(
        ENFORCED, "False", "Observed", f"only observed, by {policy.observed_by}; would {would}"
    )


def explained(
    decision: Decision, table: MetricTable, effects: Effects, most: int
) -> dict[str, Any]:
    """Return the mode and the effects for /explain; up to `most` names in each list."""
    policy = decision.policy
    if not policy.observed:
        return {"enforcement": {"mode": "enforce"}}
    lists: dict[str, Any] = {}
    for name, _, found in _changes(decision, table, effects):
        lists[name] = list(found[:most])
        if len(found) > most:
            lists[f"{name}More"] = len(found) - most
    return {
        "enforcement": {
            "mode": "observe",
            "by": policy.observed_by,
            "wouldChange": lists,
            "evict": effects.evicting,
        }
    }


def refused_nodes(decision: Decision, table: MetricTable) -> Sequence[str]:
    """Return the nodes that the policy refuses to its pods."""
    if StrategyName.DONTSCHEDULE not in decision.states:
        return ()
    return table.nodes.at(violators(decision.dontschedule, table.nodes))


def violating_nodes(decision: Decision, table: MetricTable) -> Sequence[str]:
    """Return the nodes that violate dontschedule or deschedule, which taints and conditions are set on."""
    strategies = (StrategyName.DONTSCHEDULE, StrategyName.DESCHEDULE)
    states = (decision.states[name] for name in strategies if name in decision.states)
    return table.nodes.at(union((state.found.violated for state in states), table.nodes))


def labelled_nodes(decision: Decision, table: MetricTable) -> Sequence[str]:
    """Return the nodes that the policy sets labels on."""
    return table.nodes.at(assignments_of(decision.labels).labelled)


def _pods(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{counted(len(names), 'pod')} ({', '.join(names[:_NAMED])}{more})"
