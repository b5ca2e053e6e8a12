"""Which pods kube-scheduler deletes for a pod of a higher priority: its plugin DefaultPreemption. No I/O.

PodDisruptionBudgets do not count here.
"""

from collections.abc import Iterable, Mapping, Sequence

from sandbox.client.objects import Object
from sandbox.scheduler import constraints, fitting

Victims = tuple[Object, ...]
"""The pods that must leave a node, the most important first."""
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
    pod: Object, nodes: Iterable[Object], placed: Iterable[tuple[str, Object]]
) -> dict[str, Victims]:
    """Return the nodes on which a pod fits without some pods of lower priorities, with the fewest of these."""
    by_node: dict[str, list[Object]] = {}
    for name, other in placed:
        by_node.setdefault(name, []).append(other)
    found: dict[str, Victims] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        if victims := _victims(pod, node, by_node.get(name, [])):
            found[name] = victims
    return found


def _victims(pod: Object, node: Object, others: Sequence[Object]) -> Victims:
    lower = [other for other in others if priority(other) < priority(pod)]
    if not lower or constraints.violation(pod, node):
        return ()
    kept = [other for other in others if priority(other) >= priority(pod)]
    if not _fits(pod, node, kept):
        return ()
    victims = []
    for other in sorted(lower, key=lambda one: (-priority(one), _started(one))):
        if _fits(pod, node, [*kept, other]):
            kept.append(other)
        else:
            victims.append(other)
    return tuple(victims)


def _fits(pod: Object, node: Object, others: Sequence[Object]) -> bool:
    name = node["metadata"]["name"]
    used = fitting.usage((name, other) for other in others)
    return bool(fitting.fit(pod, [node], used).nodes)


def best(found: Mapping[str, Victims]) -> str:
    """Return the node whose victims matter least: the lowest priorities, then the fewest pods, then the youngest."""
    # Stable, thus the first of equals; the latest start cannot be negated, since it is a text.
    latest = sorted(found, key=lambda name: _earliest(found[name]), reverse=True)
    return min(latest, key=lambda name: _cost(found[name]))


def _cost(victims: Victims) -> tuple[int, int, int]:
    priorities = [priority(victim) for victim in victims]
    return max(priorities), sum(one + _SHIFT for one in priorities), len(victims)


def _earliest(victims: Victims) -> str:
    """Return when the first victim of the highest priority started."""
    top = max(map(priority, victims))
    return min(_started(victim) for victim in victims if priority(victim) == top)


def _started(pod: Object) -> str:
    started = (pod.get("status") or {}).get("startTime")
    return str(started or pod["metadata"].get("creationTimestamp") or "")
