"""The pods on nodes, grouped by workload: what keeps others from the nodes of each. Updated as pods change. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evaluator.core.model.apart import Apart, HostPort
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import PodRecord

Labels = tuple[tuple[str, str], ...]
"""Keys and values, sorted."""

_OF_ONE_POD = frozenset({"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"})
"""Labels that differ between the pods of a workload; no constraint selects by them."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """What pods of a workload have in common. Pods of one workload share one `apart`."""

    namespace: str
    labels: Labels
    apart: Apart

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, Labels, int]:
        return self.namespace, self.labels, id(self.apart)

    @property
    def by_key(self) -> Mapping[str, str]:
        """The labels by key."""
        return dict(self.labels)


def workload_of(pod: Pod) -> Workload:
    """Return the workload of a pod with a policy label."""
    return Workload(
        pod.metadata.namespace, _common((pod.metadata.labels or {}).items()), pod.spec.apart
    )


def _common(labels: Iterable[tuple[str, str]]) -> Labels:
    return tuple(sorted(pair for pair in labels if pair[0] not in _OF_ONE_POD))


class _Placed(NamedTuple):
    """A pod that is on a node and neither finished nor leaving."""

    workload: Workload
    node: str


@dataclass
class Neighbours:
    """The workloads of all known pods, with the number of pods on each node."""

    by_namespace: dict[str, dict[Workload, Counter[str]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    with_terms: dict[Workload, Counter[str]] = field(default_factory=dict)
    """Those with required anti-affinity."""
    ports: dict[str, Counter[HostPort]] = field(default_factory=lambda: defaultdict(Counter))
    """Host ports in use, by node."""

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> "Neighbours":
        """Return those of pods with a policy label."""
        made = cls()
        for pod in pods:
            made.pod_changed(None, pod)
        return made

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """Follow a pod with a policy label."""
        self._change(_of_pod(before), _of_pod(after))

    def record_changed(self, before: PodRecord | None, after: PodRecord | None) -> None:
        """Follow a pod, where all are watched, with labels and `apart`."""
        self._change(_of_record(before), _of_record(after))

    def of_namespaces(
        self, namespaces: Iterable[str] | None
    ) -> Iterator[tuple[Workload, Counter[str]]]:
        """Yield the workloads of some namespaces, or of all, with the number of pods on each node."""
        for namespace in [*self.by_namespace] if namespaces is None else namespaces:
            if namespace in self.by_namespace:
                yield from self.by_namespace[namespace].items()

    def _change(self, before: _Placed | None, after: _Placed | None) -> None:
        if before != after:
            if before is not None:
                self._count(before, -1)
            if after is not None:
                self._count(after, 1)

    def _count(self, placed: _Placed, by: int) -> None:
        workload, node = placed
        groups = self.by_namespace[workload.namespace]
        counts = groups.setdefault(workload, Counter())
        _add(counts, node, by)
        if not counts:
            del groups[workload]
            if not groups:
                del self.by_namespace[workload.namespace]
        if workload.apart.terms:
            self.with_terms[workload] = counts
            if not counts:
                del self.with_terms[workload]
        for port in workload.apart.ports:
            _add(self.ports[node], port, by)
        if node in self.ports and not self.ports[node]:
            del self.ports[node]


def _add(counts: Counter[Any], key: object, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]


def _of_pod(pod: Pod | None) -> _Placed | None:
    if pod is None or not pod.running:
        return None
    return _Placed(workload_of(pod), pod.spec.node_name)


def _of_record(pod: PodRecord | None) -> _Placed | None:
    if pod is None or not pod.holds or pod.leaving:
        return None
    return _Placed(Workload(pod.namespace, _common(pod.labels), pod.apart), pod.node)
