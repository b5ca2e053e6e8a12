"""What enforcing a policy changes in the cluster now: nodes refused to its pods, nodes labelled, pods evicted."""

from collections.abc import Iterator, Sequence
from typing import Any

from evaluator.cache.feasible_nodes import FeasibleNodes
from evaluator.cache.pods_by_policy import PodsByPolicy
from evaluator.plans import evictions
from evaluator.plans.conditions import PolicyCondition, listed
from evaluator.policy.decide import Decision, Decisions
from evaluator.policy.evaluate import MetricTable
from evaluator.policy.label_sets import assignments_of
from evaluator.policy.types import StrategyName
from evaluator.policy.violations import violators
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


def condition(decision: Decision, table: MetricTable, effects: Effects) -> PolicyCondition:
    """Return the condition Enforced: what enforcing the policy would change, or what observing it would undo."""
    total, policy = len(table.nodes), decision.policy
    labelled = labelled_nodes(decision, table)
    if not policy.observed:
        message = "the policy is enforced"
        if labelled:
            nodes = listed(labelled, total)
            message += f"; when it is observed or deleted, its labels are taken off {nodes}"
        return PolicyCondition(ENFORCED, "True", "Enforced", message)
    changes = []
    if refused := refused_nodes(decision, table):
        changes.append(f"refuse new pods on {listed(refused, total)}")
    if labelled:
        changes.append(f"label {listed(labelled, total)}")
    if pods := effects.evicted(decision):
        changes.append(f"evict {_pods(pods)}{'' if effects.evicting else ' if --evict is set'}")
    would = "; ".join(changes) or "change nothing now"
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
    changes = {
        "nodesRefused": refused_nodes(decision, table),
        "nodesLabelled": labelled_nodes(decision, table),
        "podsEvicted": effects.evicted(decision),
    }
    lists: dict[str, Any] = {}
    for name, found in changes.items():
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


def labelled_nodes(decision: Decision, table: MetricTable) -> Sequence[str]:
    """Return the nodes that the policy sets labels on."""
    return table.nodes.at(assignments_of(decision.labels).labelled)


def _pods(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{counted(len(names), 'pod')} ({', '.join(names[:_NAMED])}{more})"
