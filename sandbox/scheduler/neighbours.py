"""What pods on nodes keep others from: anti-affinity, topology spread and host ports, with kube-scheduler's reasons. No I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sandbox.client.objects import Object
from sandbox.scheduler import spread
from sandbox.scheduler.constraints import matches_labels

Placed = Sequence[tuple[str, Object]]
"""Names of nodes with a pod on each."""

_ANY = ("", "0.0.0.0")  # noqa: S104 (compared, not bound)


def obstacle(pod: Object, node: Object, placed: Placed, nodes: Mapping[str, Object]) -> str | None:
    """Return why other pods keep a pod from a node, or None. `nodes`: all nodes by name."""
    others = [(on, other) for on, other in placed if _uid(other) != _uid(pod)]
    for on, other in others:
        if on == node["metadata"]["name"] and _ports_conflict(pod, other):
            return "node(s) didn't have free ports for the requested pod ports"
    if unspread := spread.obstacle(pod, node, placed, nodes):
        return unspread
    for on, other in others:
        if any(_together(term, node, nodes.get(on)) for term in _terms_about(pod, other)):
            return "node(s) didn't match pod anti-affinity rules"
        if any(_together(term, node, nodes.get(on)) for term in _terms_about(other, pod)):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _terms_about(holder: Object, other: Object) -> Iterator[Object]:
    """Yield the terms of a pod's required anti-affinity that select another pod."""
    affinity = (holder["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    own, namespace = holder["metadata"].get("namespace"), other["metadata"].get("namespace")
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []:
        among = term.get("namespaces") or [own]
        if (namespace in among or "namespaceSelector" in term) and matches_labels(
            term.get("labelSelector"), other["metadata"].get("labels") or {}
        ):
            yield term


def _together(term: Object, node: Object, other: Object | None) -> bool:
    """Return whether two nodes are in one domain of a term."""
    key = term["topologyKey"]
    value = (node["metadata"].get("labels") or {}).get(key)
    return (
        other is not None
        and value is not None
        and (other["metadata"].get("labels") or {}).get(key) == value
    )


def _ports(pod: Object) -> Iterable[tuple[int, str, str]]:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or []:
            if port.get("hostPort"):
                yield port["hostPort"], port.get("protocol") or "TCP", port.get("hostIP") or ""


def _ports_conflict(pod: Object, other: Object) -> bool:
    return any(
        one[:2] == two[:2] and (one[2] == two[2] or one[2] in _ANY or two[2] in _ANY)
        for one in _ports(pod)
        for two in _ports(other)
    )


def _uid(pod: Object) -> str | None:
    uid: str | None = pod["metadata"].get("uid")
    return uid
