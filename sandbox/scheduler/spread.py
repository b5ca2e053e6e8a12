"""Topology spread constraints with DoNotSchedule, with kube-scheduler's reasons. No I/O."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sandbox.client.objects import Object
from sandbox.scheduler.constraints import matches_labels, matches_selector, untolerated

Placed = Sequence[tuple[str, Object]]
"""Names of nodes with a pod on each."""

REASON = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{REASON} (missing required label)"


def obstacle(pod: Object, node: Object, placed: Placed, nodes: Mapping[str, Object]) -> str | None:
    """Return why a pod on this node would not be spread, or None. `nodes`: all nodes by name."""
    hard = list(_constraints(pod))
    keys = [constraint["topologyKey"] for constraint in hard]
    labels = _labels(node)
    if any(key not in labels for key in keys):
        return UNLABELLED
    for constraint in hard:
        counts = _counts(pod, constraint, keys, placed, nodes)
        domain = labels[constraint["topologyKey"]]
        own = _selects(constraint, pod, pod)
        few = len(counts) < (constraint.get("minDomains") or 0)
        least = 0 if few else min(counts.values(), default=0)
        if counts.get(domain, 0) + own - least > constraint["maxSkew"]:
            return REASON
    return None


def _constraints(pod: Object) -> Iterator[Object]:
    for constraint in pod["spec"].get("topologySpreadConstraints") or []:
        if constraint["whenUnsatisfiable"] == "DoNotSchedule":
            yield constraint


def _counts(
    pod: Object,
    constraint: Object,
    keys: Sequence[str],
    placed: Placed,
    nodes: Mapping[str, Object],
) -> Mapping[str, int]:
    """Return the selected pods in each domain of the nodes that count for the pod."""
    on: Counter[str] = Counter()
    for name, other in placed:
        gone = "deletionTimestamp" in other["metadata"]
        itself = other["metadata"].get("uid") == pod["metadata"].get("uid")
        on[name] += not gone and not itself and _selects(constraint, pod, other)
    counts: Counter[str] = Counter()
    for name, node in nodes.items():
        labels = _labels(node)
        if all(key in labels for key in keys) and _counts_node(pod, constraint, node):
            counts[labels[constraint["topologyKey"]]] += on[name]
    return counts


def _counts_node(pod: Object, constraint: Object, node: Object) -> bool:
    """Return whether a node counts: by default, node affinity is honored and taints are ignored."""
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not matches_selector(pod, node):
        return False
    honors_taints = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
    return not (honors_taints and untolerated(pod, node))


def _selects(constraint: Object, pod: Object, other: Object) -> bool:
    """Return whether a constraint of a pod selects another, by its selector and matchLabelKeys."""
    own, labels = pod["metadata"].get("labels") or {}, other["metadata"].get("labels") or {}
    keys = [key for key in constraint.get("matchLabelKeys") or () if key in own]
    return (
        other["metadata"].get("namespace") == pod["metadata"].get("namespace")
        and matches_labels(constraint.get("labelSelector"), labels)
        and all(labels.get(key) == own[key] for key in keys)
    )


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}
