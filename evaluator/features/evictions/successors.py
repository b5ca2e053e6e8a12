"""Whether the successor of a pod could run on another node, beside the pods that are known. Pure.

The pod that leaves counts for nothing against its own successor. What kube-scheduler checks is in
`evaluator.core.model.apart`; resources are checked where all pods are watched.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from evaluator.core.model.apart import AntiAffinityTerm, LabelSelector, SpreadConstraint
from evaluator.core.model.feasibility import constraint_key, is_selected
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod

HasRoom = Callable[[Pod, str], bool]
"""Returns whether a node has room for what a pod requests."""

UNREADABLE = "their affinity or topology spread cannot be read"
ANTI_AFFINITY = "required anti-affinity keeps their successors from every other node"
SPREAD = "topology spread with DoNotSchedule keeps their successors from every other node"
PORTS = "other pods use their host ports on every other node"
ROOM = "no other node has enough free for what they request; see --evictNeedsRoom"
TOGETHER = "anti-affinity, topology spread, host ports and free requests together keep their successors from every other node"  # fmt: skip


def _has_room(_pod: Pod, _node: str) -> bool:
    """Return True: free requests are not known."""
    return True


_OF_ONE_POD = frozenset({"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"})
"""Labels that differ between the pods of a workload; no constraint selects by them."""

_Workload = tuple[int, str, tuple[tuple[str, str], ...]]
"""What pods of a workload have in common: constraints, namespace and labels."""


def _workload(pod: Pod) -> _Workload:
    labels = pod.metadata.labels or {}
    common = tuple(sorted(pair for pair in labels.items() if pair[0] not in _OF_ONE_POD))
    return id(pod.spec.apart), pod.metadata.namespace, common


@dataclass(slots=True)
class _Group:
    """The known pods of a workload: one of them, and how many there are on each node."""

    pod: Pod
    nodes: Counter[str] = field(default_factory=Counter)


_Domains = Mapping[str, Counter[str]]
"""By topology key, how many pods are in each domain."""


@dataclass
class KnownPods:
    """The pods that are known, and what they keep from a node, at one moment. Built when the first pod is checked."""

    pods: Iterable[Pod]
    """All pods on nodes that are not finished or leaving."""
    nodes: Mapping[str, Node]
    has_room: HasRoom = _has_room
    _groups: dict[_Workload, _Group] = field(default_factory=dict)
    _ports: dict[str, list[Pod]] = field(default_factory=lambda: defaultdict(list))
    """The pods with host ports, by node."""
    _apart: dict[_Workload, _Domains] = field(default_factory=dict)
    _spread: dict[tuple[_Workload, bytes, int], Counter[str]] = field(default_factory=dict)
    _built: bool = False

    def obstacle(self, pod: Pod, nodes: Collection[str]) -> str:
        """Return why none of the nodes could take the pod's successor, as a phrase about several pods; empty if one could."""
        self._build()
        if pod.spec.apart.unreadable:
            return UNREADABLE
        left, whys = list(nodes), 0
        for why, allowed in self._checks(pod):
            among = [node for node in left if allowed(node)]
            whys += len(among) < len(left)
            left = among
            if not left:
                return why if whys == 1 else TOGETHER
        return ""

    def _checks(self, pod: Pod) -> Iterator[tuple[str, Callable[[str], bool]]]:
        """Yield what the successor needs of a node, and what to say if none has it."""
        workload = _workload(pod)
        if blocked := self._blocked(pod, workload):
            yield ANTI_AFFINITY, partial(self._is_in_none, blocked)
        for number, constraint in enumerate(pod.spec.apart.spread):
            domains = self._permitted(pod, workload, number)
            yield SPREAD, partial(self._is_in, constraint.topology_key, domains)
        if pod.spec.apart.ports:
            yield PORTS, partial(self._has_ports_free, pod)
        yield ROOM, partial(self.has_room, pod)

    def _build(self) -> None:
        if self._built:
            return
        self._built = True
        for pod in self.pods:
            group = self._groups.setdefault(_workload(pod), _Group(pod))
            group.nodes[pod.spec.node_name] += 1
            if pod.spec.apart.ports:
                self._ports[pod.spec.node_name].append(pod)

    def _domain(self, key: str, node: str) -> str | None:
        found = self.nodes.get(node)
        return (found.metadata.labels or {}).get(key) if found is not None else None

    def _is_in(self, key: str, domains: Collection[str], node: str) -> bool:
        return self._domain(key, node) in domains

    def _is_in_none(self, blocked: Mapping[str, Collection[str]], node: str) -> bool:
        return not any(self._domain(key, node) in domains for key, domains in blocked.items())

    def _has_ports_free(self, pod: Pod, node: str) -> bool:
        used = (port for one in self._ports.get(node, ()) for port in one.spec.apart.ports)
        return not any(port.conflicts(own) for port in used for own in pod.spec.apart.ports)

    def _blocked(self, pod: Pod, workload: _Workload) -> Mapping[str, Collection[str]]:
        """Return the domains, by topology key, from which anti-affinity keeps the successor: its own, and that of others."""
        if (counts := self._apart.get(workload)) is None:
            counts = self._apart[workload] = self._kept_apart(pod)
        own: dict[str, Counter[str]] = defaultdict(Counter)
        for term in pod.spec.apart.terms:
            domain = self._domain(term.topology_key, pod.spec.node_name)
            if domain is not None and _concerns(term, pod, pod):
                own[term.topology_key][domain] += 2  # it selects the group, and is of the group
        return {key: (found - own[key]).keys() for key, found in counts.items()}

    def _kept_apart(self, pod: Pod) -> _Domains:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for group in self._groups.values():
            keys = [
                one.topology_key for one in pod.spec.apart.terms if _concerns(one, pod, group.pod)
            ]
            theirs = group.pod.spec.apart.terms
            keys += [one.topology_key for one in theirs if _concerns(one, group.pod, pod)]
            for key in keys:
                for node, number in group.nodes.items():
                    if (domain := self._domain(key, node)) is not None:
                        counts[key][domain] += number
        return counts

    def _permitted(self, pod: Pod, workload: _Workload, number: int) -> Collection[str]:
        """Return the domains in which the successor keeps the skew of its constraint of this number."""
        constraint = pod.spec.apart.spread[number]
        cached = (workload, constraint_key(pod.spec), number)
        if (counts := self._spread.get(cached)) is None:
            counts = self._spread[cached] = self._spread_of(pod, constraint)
        own = _matches(constraint.label_selector, _same(constraint.match_label_keys, pod), pod)
        without = counts.copy()
        domain = self._domain(constraint.topology_key, pod.spec.node_name)
        if domain is not None and without[domain]:
            without[domain] -= own
        least = min(without.values(), default=0)
        if constraint.min_domains is not None and len(without) < constraint.min_domains:
            least = 0
        most = constraint.max_skew + least - own
        return {domain for domain, count in without.items() if count <= most}

    def _spread_of(self, pod: Pod, constraint: SpreadConstraint) -> Counter[str]:
        """Return the matching pods in each domain of the nodes that the pod's node selector and affinity match."""
        labels = _same(constraint.match_label_keys, pod)
        numbers: Counter[str] = Counter()
        for group in self._groups.values():
            same_namespace = group.pod.metadata.namespace == pod.metadata.namespace
            if same_namespace and _matches(constraint.label_selector, labels, group.pod):
                numbers.update(group.nodes)
        counts: Counter[str] = Counter()
        for name, node in self.nodes.items():
            domain = self._domain(constraint.topology_key, name)
            if domain is not None and is_selected(node, pod):
                counts[domain] += numbers[name]
        return counts


def _concerns(term: AntiAffinityTerm, holder: Pod, other: Pod) -> bool:
    """Return whether a term of one pod selects another."""
    if not term.selects_namespace(other.metadata.namespace, holder.metadata.namespace):
        return False
    return _matches(term.label_selector, _same(term.match_label_keys, holder), other)


def _same(keys: Sequence[str] | None, pod: Pod) -> Mapping[str, str]:
    """Return the labels of a pod that others must share, by matchLabelKeys."""
    labels = pod.metadata.labels or {}
    return {key: labels[key] for key in keys or () if key in labels}


def _matches(selector: LabelSelector | None, same: Mapping[str, str], pod: Pod) -> bool:
    """Return whether a selector matches a pod; none matches no pod."""
    labels = pod.metadata.labels or {}
    if selector is None or any(labels.get(key) != value for key, value in same.items()):
        return False
    return selector.matches(labels)
