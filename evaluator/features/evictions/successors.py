"""Whether the successor of a pod could run on another node, beside the pods that are known. Pure.

The pod that leaves counts for nothing against its own successor. What kube-scheduler checks is in
`evaluator.core.model.apart`; resources are checked where all pods are watched.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from evaluator.core.model.apart import AntiAffinityTerm, LabelSelector, SpreadConstraint
from evaluator.core.model.feasibility import constraint_key, is_selected
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod
from evaluator.features.evictions.neighbours import Neighbours, Workload, workload_of

HasRoom = Callable[[Pod, str], bool]
"""Returns whether a node has room for what a pod requests."""

UNLISTED = "not all pods are listed yet"
UNREADABLE = "their affinity or topology spread cannot be read"
ANTI_AFFINITY = "required anti-affinity keeps their successors from every other node"
SPREAD = "topology spread with DoNotSchedule keeps their successors from every other node"
PORTS = "other pods use their host ports on every other node"
ROOM = "no other node has enough free for what they request; see --evictNeedsRoom"
TOGETHER = "anti-affinity, topology spread, host ports and free requests together keep their successors from every other node"  # fmt: skip
OBSTACLES = frozenset({UNLISTED, ANTI_AFFINITY, SPREAD, PORTS, ROOM, TOGETHER})
"""What ends when another pod leaves."""
BY_COUNTS = frozenset({SPREAD, TOGETHER})
"""What pods that are not known may lift, since they count for the skew; other obstacles they only add to."""
POLICY_PODS_ONLY = "checked against pods with a policy only: see --gangs and --scorers"
"""How successors are checked where not all pods are watched."""


def _has_room(_pod: Pod, _node: str) -> bool:
    """Return True: free requests are not known."""
    return True


def _complete() -> bool:
    """Return True: the pods of policies are listed before anything is decided."""
    return True


_Domains = Mapping[str, Counter[str]]
"""By topology key, how many pods are in each domain."""


@dataclass
class KnownPods:
    """The pods that are known, and what they keep from a node, at one moment."""

    neighbours: Neighbours
    nodes: Mapping[str, Node]
    has_room: HasRoom = _has_room
    complete: Callable[[], bool] = _complete
    """Returns whether the pods were listed."""
    _apart: dict[Workload, _Domains] = field(default_factory=dict)
    _spread: dict[tuple[Workload, bytes, int], Counter[str]] = field(default_factory=dict)

    def obstacle(self, pod: Pod, nodes: Collection[str]) -> str:
        """Return why none of the nodes could take the pod's successor, as a phrase about several pods; empty if one could."""
        if not self.complete():
            return UNLISTED
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
        workload = workload_of(pod)
        if blocked := self._blocked(pod, workload):
            yield ANTI_AFFINITY, partial(self._is_in_none, blocked)
        for number, constraint in enumerate(pod.spec.apart.spread):
            domains = self._permitted(pod, workload, number)
            yield SPREAD, partial(self._is_in, constraint.topology_key, domains)
        if pod.spec.apart.ports:
            yield PORTS, partial(self._has_ports_free, pod)
        yield ROOM, partial(self.has_room, pod)

    def _domain(self, key: str, node: str) -> str | None:
        found = self.nodes.get(node)
        return (found.metadata.labels or {}).get(key) if found is not None else None

    def _is_in(self, key: str, domains: Collection[str], node: str) -> bool:
        return self._domain(key, node) in domains

    def _is_in_none(self, blocked: Mapping[str, Collection[str]], node: str) -> bool:
        return not any(self._domain(key, node) in domains for key, domains in blocked.items())

    def _has_ports_free(self, pod: Pod, node: str) -> bool:
        used = self.neighbours.ports.get(node, ())
        return not any(port.conflicts(own) for port in used for own in pod.spec.apart.ports)

    def _blocked(self, pod: Pod, workload: Workload) -> Mapping[str, Collection[str]]:
        """Return the domains, by topology key, from which anti-affinity keeps the successor: its own, and that of others."""
        if (counts := self._apart.get(workload)) is None:
            counts = self._apart[workload] = self._kept_apart(workload)
        own: dict[str, Counter[str]] = defaultdict(Counter)
        for term in pod.spec.apart.terms:
            domain = self._domain(term.topology_key, pod.spec.node_name)
            if domain is not None and _concerns(term, workload, workload):
                own[term.topology_key][domain] += 2  # it selects the group, and is of the group
        return {key: (found - own[key]).keys() for key, found in counts.items()}

    def _kept_apart(self, successor: Workload) -> _Domains:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for term in successor.apart.terms:
            for group, nodes in self.neighbours.of_namespaces(_namespaces(term, successor)):
                if _concerns(term, successor, group):
                    self._count(counts[term.topology_key], term.topology_key, nodes)
        for group, nodes in self.neighbours.with_terms.items():
            for term in group.apart.terms:
                if _concerns(term, group, successor):
                    self._count(counts[term.topology_key], term.topology_key, nodes)
        return counts

    def _count(self, counts: Counter[str], key: str, nodes: Mapping[str, int]) -> None:
        """Add pods on nodes to the counts of their domains."""
        for node, number in nodes.items():
            if (domain := self._domain(key, node)) is not None:
                counts[domain] += number

    def _permitted(self, pod: Pod, workload: Workload, number: int) -> Collection[str]:
        """Return the domains in which the successor keeps the skew of its constraint of this number."""
        constraint = pod.spec.apart.spread[number]
        cached = (workload, constraint_key(pod.spec), number)
        if (counts := self._spread.get(cached)) is None:
            counts = self._spread[cached] = self._spread_of(pod, workload, constraint)
        labels = workload.by_key
        same = _same(constraint.match_label_keys, labels)
        own = _matches(constraint.label_selector, same, labels)
        without = counts.copy()
        domain = self._domain(constraint.topology_key, pod.spec.node_name)
        if domain is not None and without[domain]:
            without[domain] -= own
        least = min(without.values(), default=0)
        if constraint.min_domains is not None and len(without) < constraint.min_domains:
            least = 0
        most = constraint.max_skew + least - own
        return {domain for domain, count in without.items() if count <= most}

    def _spread_of(
        self, pod: Pod, workload: Workload, constraint: SpreadConstraint
    ) -> Counter[str]:
        """Return the matching pods in each domain of the nodes that the pod's node selector and affinity match."""
        same = _same(constraint.match_label_keys, workload.by_key)
        numbers: Counter[str] = Counter()
        for group, nodes in self.neighbours.of_namespaces((workload.namespace,)):
            if _matches(constraint.label_selector, same, group.by_key):
                numbers.update(nodes)
        counts: Counter[str] = Counter()
        for name, node in self.nodes.items():
            domain = self._domain(constraint.topology_key, name)
            if domain is not None and is_selected(node, pod):
                counts[domain] += numbers[name]
        return counts


def _namespaces(term: AntiAffinityTerm, holder: Workload) -> Collection[str] | None:
    """Return the namespaces that a term selects; None for all."""
    return None if term.namespace_selector is not None else term.namespaces or (holder.namespace,)


def _concerns(term: AntiAffinityTerm, holder: Workload, other: Workload) -> bool:
    """Return whether a term of one pod selects another."""
    if not term.selects_namespace(other.namespace, holder.namespace):
        return False
    same = _same(term.match_label_keys, holder.by_key)
    return _matches(term.label_selector, same, other.by_key)


def _same(keys: Sequence[str] | None, labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels of a pod that others must share, by matchLabelKeys."""
    return {key: labels[key] for key in keys or () if key in labels}


def _matches(
    selector: LabelSelector | None, same: Mapping[str, str], labels: Mapping[str, str]
) -> bool:
    """Return whether a selector matches the labels of a pod; none matches no pod."""
    if selector is None or any(labels.get(key) != value for key, value in same.items()):
        return False
    return selector.matches(labels)
