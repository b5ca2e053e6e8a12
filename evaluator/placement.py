"""Whether kube-scheduler could put a pod on a node, as far as that is a matter of the node and not of what else runs there."""

from collections.abc import Iterable, Iterator, Mapping

from evaluator.objects import Node, NodeSelectorTerm, Pod, Requirement, Taint, Toleration

_NAMED = ("metadata.name", "In")


def would_take(node: Node, pod: Pod) -> bool:
    """Whether kube-scheduler could put a pod there as far as readiness, cordon, taints, selector and affinity go.

    Room is not looked at: the evaluator does not watch the pods that follow no policy.
    """
    return (
        node.ready
        and not node.spec.unschedulable
        and all(_tolerated(taint, pod.spec.tolerations or ()) for taint in node.spec.taints or ())
        and _selected(node, pod)
    )


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
    if toleration.operator == "Exists":
        return toleration.key in {"", taint.key}
    return toleration.key == taint.key and toleration.value == taint.value


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
    try:
        have, bound = int(value or ""), int((requirement.values or [""])[0])
    except ValueError:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound
