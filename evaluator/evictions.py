"""Which pods have to leave: those of a violated deschedule policy, a few at a time, and only if they have somewhere to go."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from evaluator.decisions import Decision, Decisions
from evaluator.extender.verbs import POLICY_LABEL
from evaluator.objects import Node, NodeSelectorTerm, Pod, Requirement, Taint, Toleration
from evaluator.policy import PolicyKey


@dataclass(frozen=True, slots=True)
class Eviction:
    """One pod that should leave its node, for a reason."""

    policy: PolicyKey
    pod: Pod
    reason: str


@dataclass(frozen=True, slots=True)
class Pace:
    """At most `limit` pods of one policy in `period` seconds."""

    period: float
    limit: int


def plan(
    decisions: Decisions,
    pods: Iterable[Pod],
    nodes: Mapping[str, Node],
    recent: Mapping[PolicyKey, tuple[float, ...]],
    *,
    pace: Pace,
    now: float,
) -> list[Eviction]:
    """The evictions due at `now`, given when each policy's recent ones were asked for (seconds).

    Pods are taken in order of their names, so that the same state gives the same plan. A pod without another node that
    its policy and its own constraints allow stays where it is: evicting it would only make it Pending.
    """
    chosen: list[Eviction] = []
    by_policy = _by_policy(pods)
    for key, decision in decisions.policies.items():
        if not decision.deschedule:
            continue
        used = sum(1 for at in recent.get(key, ()) if now - at < pace.period)
        leaving = (
            Eviction(key, pod, decision.deschedule[pod.spec.node_name])
            for pod in by_policy.get(key, [])
            if pod.spec.node_name in decision.deschedule and _has_refuge(pod, decision, nodes)
        )
        chosen += islice(leaving, max(0, pace.limit - used))
    return chosen


def _by_policy(pods: Iterable[Pod]) -> dict[PolicyKey, list[Pod]]:
    grouped: dict[PolicyKey, list[Pod]] = {}
    for pod in sorted(pods, key=str):
        name = (pod.metadata.labels or {}).get(POLICY_LABEL)
        if name and pod.running:
            grouped.setdefault(PolicyKey(pod.metadata.namespace, name), []).append(pod)
    return grouped


def _has_refuge(pod: Pod, decision: Decision, nodes: Mapping[str, Node]) -> bool:
    return any(
        name not in decision.deschedule
        and name not in decision.dontschedule
        and name not in decision.awaited
        and would_take(node, pod)
        for name, node in nodes.items()
    )


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
