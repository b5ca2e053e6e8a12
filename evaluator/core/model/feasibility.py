"""Checks placement constraints: whether kube-scheduler could bind a pod to a node, resources aside; and caches feasible nodes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.node import Node, Taint
from evaluator.core.model.pod import (
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Requirement,
    Toleration,
)
from plimsoll.labels import int64

EXCLUDED_BY = "node selector, affinity, taints or readiness"
"""What `is_feasible` depends on, for messages about all nodes."""

_NAMED = ("metadata.name", "In")
_NO_SCHEDULE = "NoSchedule"
_CORDONED = Taint("node.kubernetes.io/unschedulable", "", _NO_SCHEDULE)
_IMPLIED = {
    "node.kubernetes.io/unschedulable": "the node is cordoned",
    "node.kubernetes.io/not-ready": "the node is not ready",
    "node.kubernetes.io/unreachable": "the node is unreachable",
}
_NOT_READY = Taint("node.kubernetes.io/not-ready", "", _NO_SCHEDULE)
_UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", _NO_SCHEDULE)
_STEP = 500
"""Nodes checked per step: well below a millisecond."""


def is_feasible(node: Node, pod: Pod) -> bool:
    """Return whether the node is feasible for the pod by readiness, cordon, taints, node selector and node affinity.

    Free resources are not checked: the evaluator does not watch pods without a policy.
    """
    tolerations = pod.spec.tolerations or ()
    return all(_tolerated(taint, tolerations) for taint in _taints(node)) and is_selected(node, pod)


def obstacles(node: Node, pod: Pod) -> list[str]:
    """Return why the node is not feasible for the pod, one phrase for each reason; empty if `is_feasible`."""
    tolerations = pod.spec.tolerations or ()
    found = [
        _IMPLIED.get(t.key) or _named(t) for t in _taints(node) if not _tolerated(t, tolerations)
    ]
    labels = node.metadata.labels or {}
    for key, value in (pod.spec.node_selector or {}).items():
        if labels.get(key) != value:
            found.append(f"nodeSelector {key}={value} does not match")
    if not _affine(node, pod):
        found.append("the required node affinity does not match")
    return list(dict.fromkeys(found))


def _named(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"taint {taint.key}{value}:{taint.effect} is not tolerated"


def _taints(node: Node) -> Iterator[Taint]:
    """Yield the taints of a node, including those implied by its cordon and its Ready condition.

    kube-scheduler treats a cordon as a taint. The taint for a node that is not ready is added by the node lifecycle
    controller, a moment after the condition.
    """
    yield from node.spec.taints or ()
    if node.spec.unschedulable:
        yield _CORDONED
    if node.ready_status == "Unknown":
        yield _UNREACHABLE
    elif node.ready_status != "True":
        yield _NOT_READY


def pinned(pod: Pod) -> frozenset[str] | None:
    """Return the nodes that a pod names in its required node affinity, as DaemonSet pods do; None if it names none."""
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
        case _:  # unknown operator: assume no match
            return False


def _within(value: str, toleration: Toleration) -> bool:
    """Return whether a taint's value is greater (Gt) or less (Lt) than a toleration's; only canonical integers compare."""
    have, bound = int64.parse_canonical(value), int64.parse_canonical(toleration.value)
    if have is None or bound is None:
        return False
    return have > bound if toleration.operator == "Gt" else have < bound


def is_selected(node: Node, pod: Pod) -> bool:
    """Return whether a pod's node selector and required node affinity match a node."""
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    return _affine(node, pod)


def _affine(node: Node, pod: Pod) -> bool:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required
    if not required:
        return True
    return any(_matches(term, node) for term in required.node_selector_terms or ())


def matches_selector(selector: NodeSelector, node: Node | None) -> bool:
    """Return whether a node selector matches a node: that of a volume, for example."""
    return node is not None and any(
        _matches(one, node) for one in selector.node_selector_terms or ()
    )


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Return whether a node selector term matches; an empty term matches no node, as in Kubernetes."""
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
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
        case _:  # unknown operator: assume no match
            return False


def _compares(value: str | None, requirement: Requirement) -> bool:
    values = requirement.values or []
    if value is None or len(values) != 1:
        return False
    have, bound = int64.parse(value), int64.parse(values[0])
    if have is None or bound is None:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound


def constraint_key(spec: PodSpec) -> bytes:
    """Return a pod's placement constraints as one comparable value."""
    return msgspec.json.encode((spec.node_selector, spec.affinity, spec.tolerations))


class NodesForPod(set[str]):
    """The names of the feasible nodes of a pod. `version` increases with each change."""

    version = 0


@dataclass(slots=True)
class _Constraints:
    """A set of placement constraints. `pod` is one of its pods; `due` are the nodes to check (None: all, or all in `only`)."""

    pod: Pod
    only: frozenset[str] | None
    feasible: NodesForPod = field(default_factory=NodesForPod)
    due: set[str] | None = None


class FeasibleNodes:
    """Feasible nodes per set of constraints, over the live dict `nodes`; call `changed()` for each node that changes.

    Nodes are checked on demand and in steps; until those are done, `behind` is true.
    """

    def __init__(self, nodes: Mapping[str, Node], guard: Guard = UNGUARDED) -> None:
        """`guard` takes what a node or a pod raises: the node is then not feasible."""
        self._guard = guard
        self.version = 0
        """Increases with every change of a result."""
        self._nodes = nodes
        self._by_constraints: dict[bytes, _Constraints] = {}
        self._behind: dict[bytes, None] = {}
        self._pods: Counter[bytes] = Counter()

    @property
    def behind(self) -> bool:
        """Whether nodes are left to check, so that results are incomplete."""
        return bool(self._behind)

    def for_pod(self, pod: Pod) -> NodesForPod:
        """Return the feasible nodes of a pod; the same live set for all pods with equal constraints."""
        key = constraint_key(pod.spec)
        if (entry := self._by_constraints.get(key)) is None:
            entry = self._by_constraints[key] = _Constraints(pod, pinned(pod))
            self._behind[key] = None
        return entry.feasible

    def changed(self, node: str) -> None:
        """A node's placement changed, or the node was added or deleted."""
        for key, entry in self._by_constraints.items():
            if entry.due is not None and (entry.only is None or node in entry.only):
                entry.due.add(node)
                self._behind[key] = None

    def change_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod changed (None: absent). Constraints that no pod has any more are dropped."""
        if after is not None:
            self._pods[constraint_key(after.spec)] += 1
        if before is not None:
            key = constraint_key(before.spec)
            self._pods[key] -= 1
            if self._pods[key] <= 0:
                del self._pods[key]
                self._by_constraints.pop(key, None)
                self._behind.pop(key, None)

    def catching_up(self) -> Iterator[None]:
        """Check the pending nodes in steps, so that the caller can yield to the event loop between them."""
        while self._behind:
            key = next(iter(self._behind))
            entry = self._by_constraints[key]
            if entry.due is None:
                entry.due = set(self._nodes if entry.only is None else entry.only)
            self._check(entry, entry.due)
            if not entry.due:
                del self._behind[key]
            yield

    def _check(self, entry: _Constraints, due: set[str]) -> None:
        about = f"nodes for {entry.pod}"
        for _ in range(min(_STEP, len(due))):
            name = due.pop()
            node = self._nodes.get(name)
            feasible = node is not None and self._guard.run(
                about, partial(is_feasible, node, entry.pod), False
            )
            if feasible is (name in entry.feasible):
                continue
            self.version += 1
            entry.feasible.version += 1
            if feasible:
                entry.feasible.add(name)
            else:
                entry.feasible.discard(name)
