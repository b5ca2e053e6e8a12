"""Whether kube-scheduler could put a pod on a node, as far as that is a matter of the node and not of what else runs there."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from evaluator.model.objects import (
    Node,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
)
from plimsoll import int64

_NAMED = ("metadata.name", "In")
_NO_SCHEDULE = "NoSchedule"
_CORDONED = Taint("node.kubernetes.io/unschedulable", "", _NO_SCHEDULE)
_NOT_READY = Taint("node.kubernetes.io/not-ready", "", _NO_SCHEDULE)
_UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", _NO_SCHEDULE)


def would_take(node: Node, pod: Pod) -> bool:
    """Whether kube-scheduler could put a pod there as far as readiness, cordon, taints, selector and affinity go.

    Room is not looked at: the evaluator does not watch the pods that follow no policy.
    """
    tolerations = pod.spec.tolerations or ()
    return all(_tolerated(taint, tolerations) for taint in _taints(node)) and _selected(node, pod)


def _taints(node: Node) -> Iterator[Taint]:
    """The taints of a node, with those that its cordon and its Ready condition stand for.

    kube-scheduler treats a cordon as a taint. Of a node that is not ready it sees only the taint, which the node lifecycle
    controller adds a moment after the condition.
    """
    yield from node.spec.taints or ()
    if node.spec.unschedulable:
        yield _CORDONED
    if node.ready_status == "Unknown":
        yield _UNREACHABLE
    elif node.ready_status != "True":
        yield _NOT_READY


def pinned(pod: Pod) -> frozenset[str] | None:
    """The names of the only nodes that a pod asks for, as one of a DaemonSet does; None if it asks for none by name."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required
    if not required:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms or ():
        given = [r for r in term.match_fields or () if (r.key, r.operator) == _NAMED]
        if not given:
            return None
        names.update(given[0].values or ())
    return frozenset(names)


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    if taint.effect == "PreferNoSchedule":
        return True
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in {"", taint.effect}:
        return False
    match toleration.operator:
        case "Exists":
            return toleration.key in {"", taint.key}
        case "Equal" | "":
            return toleration.key == taint.key and toleration.value == taint.value
        case "Gt" | "Lt":
            return toleration.key == taint.key and _within(taint.value, toleration)
        case _:  # an operator from the future: assume nothing
            return False


def _within(value: str, toleration: Toleration) -> bool:
    """Whether a taint's value is greater, or less, than a toleration's; only integers in canonical form compare."""
    have, bound = int64.parse_canonical(value), int64.parse_canonical(toleration.value)
    if have is None or bound is None:
        return False
    return have > bound if toleration.operator == "Gt" else have < bound


def _selected(node: Node, pod: Pod) -> bool:
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required
    if not required:
        return True
    return any(_matches(term, node) for term in required.node_selector_terms or ())


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    """A term without requirements matches no node, as in Kubernetes."""
    labels = node.metadata.labels or {}
    fields = {"metadata.name": node.metadata.name}
    checks = [
        *_checks(term.match_expressions or (), labels),
        *_checks(term.match_fields or (), fields),
    ]
    return bool(checks) and all(checks)


def _checks(requirements: Iterable[Requirement], have: Mapping[str, str]) -> Iterator[bool]:
    for requirement in requirements:
        yield _meets(have.get(requirement.key), requirement)


def _meets(value: str | None, requirement: Requirement) -> bool:
    wanted = requirement.values or []
    match requirement.operator:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
        case _:  # an operator from the future: assume nothing
            return False


def _compares(value: str | None, requirement: Requirement) -> bool:
    wanted = requirement.values or []
    if value is None or len(wanted) != 1:
        return False
    have, bound = int64.parse(value), int64.parse(wanted[0])
    if have is None or bound is None:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound


def constraint_key(spec: PodSpec) -> bytes:
    """What a pod asks of a node, as one value."""
    return msgspec.json.encode((spec.node_selector, spec.affinity, spec.tolerations))
