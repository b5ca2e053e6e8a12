"""Which pods kube-scheduler deletes for a pod of a higher priority: its plugin DefaultPreemption. No I/O.

It prefers pods without an exhausted PodDisruptionBudget, and deletes the others if nothing else helps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sandbox.client.objects import Object
from sandbox.scheduler import constraints, fitting


class Victims(NamedTuple):
    """The pods that must leave a node, the most important first, and how many of them exceed a PodDisruptionBudget."""

    pods: tuple[Object, ...]
    violations: int = 0


_SHIFT = 2**31
"""Makes a sum of priorities grow with each pod, also of a negative priority."""


def priority(pod: Object) -> int:
    """Return a pod's priority."""
    return int(pod["spec"].get("priority") or 0)


def nominated_node(pod: Object) -> str:
    """Return the node on which room was made for a pod; empty if none was."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def may_preempt(pod: Object, placed: Iterable[tuple[str, Object]]) -> bool:
    """Return whether pods may be deleted for a pod: not while its earlier victims end. `placed`: node names with pods."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return False
    nominated = nominated_node(pod)
    return not any(
        node == nominated
        and "deletionTimestamp" in other["metadata"]
        and priority(other) < priority(pod)
        for node, other in placed
    )


def candidates(
    pod: Object,
    nodes: Iterable[Object],
    placed: Iterable[tuple[str, Object]],
    budgets: Sequence[Object] = (),
) -> dict[str, Victims]:
    """Return the nodes on which a pod fits without some pods of lower priorities, with the fewest of these.

    `budgets`: all PodDisruptionBudgets.
    """
    by_node: dict[str, list[Object]] = {}
    for name, other in placed:
        by_node.setdefault(name, []).append(other)
    found: dict[str, Victims] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        victims = _victims(pod, node, by_node.get(name, []), budgets)
        if victims.pods:
            found[name] = victims
    return found


def _victims(
    pod: Object, node: Object, others: Sequence[Object], budgets: Sequence[Object]
) -> Victims:
    lower = [other for other in others if priority(other) < priority(pod)]
    kept = [other for other in others if priority(other) >= priority(pod)]
    if not lower or not _fits(pod, node, kept):
        return Victims(())
    lower.sort(key=_importance)
    protected = _protected(lower, budgets)
    victims = []
    # Those that exceed a budget stay if any can.
    for other in [*protected, *(one for one in lower if one not in protected)]:
        if _fits(pod, node, [*kept, other]):
            kept.append(other)
        else:
            victims.append(other)
    violations = sum(one in protected for one in victims)
    return Victims(tuple(sorted(victims, key=_importance)), violations)


def _protected(pods: Iterable[Object], budgets: Sequence[Object]) -> list[Object]:
    """Return the pods whose deletion exceeds a budget, if those before them are deleted too."""
    left = [(one.get("status") or {}).get("disruptionsAllowed") or 0 for one in budgets]
    found = []
    for pod in pods:
        mine = [number for number, one in enumerate(budgets) if _covers(one, pod)]
        for number in mine:
            left[number] -= 1
        if any(left[number] < 0 for number in mine):
            found.append(pod)
    return found


def _covers(budget: Object, pod: Object) -> bool:
    if budget["metadata"]["namespace"] != pod["metadata"].get("namespace"):
        return False
    return constraints.selects(
        budget["spec"].get("selector") or {}, pod["metadata"].get("labels") or {}
    )


def _importance(pod: Object) -> tuple[int, str]:
    return -priority(pod), _started(pod)


def _fits(pod: Object, node: Object, others: Sequence[Object]) -> bool:
    name = node["metadata"]["name"]
    used = fitting.usage((name, other) for other in others)
    return bool(fitting.fit(pod, [node], used).nodes)


def best(found: Mapping[str, Victims]) -> str:
    """Return the node whose victims matter least: the fewest exceeded budgets, the lowest priorities, the fewest, the youngest."""
    # Stable, thus the first of equals; the latest start cannot be negated, since it is a text.
    latest = sorted(found, key=lambda name: _earliest(found[name]), reverse=True)
    return min(latest, key=lambda name: _cost(found[name]))


def _cost(victims: Victims) -> tuple[int, int, int, int]:
    priorities = [priority(victim) for victim in victims.pods]
    total = sum(one + _SHIFT for one in priorities)
    return victims.violations, max(priorities), total, len(victims.pods)


def _earliest(victims: Victims) -> str:
    """Return when the first victim of the highest priority started."""
    top = max(map(priority, victims.pods))
    return min(_started(victim) for victim in victims.pods if priority(victim) == top)


def _started(pod: Object) -> str:
    started = (pod.get("status") or {}).get("startTime")
    return str(started or pod["metadata"].get("creationTimestamp") or "")
