"""Effective resource requests of a pod, computed as kube-scheduler does.

https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from evaluator.core.model.names import EXTENDER_RESOURCE
from evaluator.core.model.pod_spec_view import (
    Container,
    ContainerStatus,
    PodSpecView,
    PodStatusFields,
    Requests,
)
from evaluator.core.model.resources import (
    RESOURCES,
    Amounts,
    ExtendedResources,
    Resource,
    ResourceVector,
    amount,
    is_other,
    plus,
)
from evaluator.core.model.resources import extended_resources as sorted_extended

IGNORED = frozenset({EXTENDER_RESOURCE})
"""Resources in kube-scheduler's `ignoredByScheduler`: pods request them so that the extender is called."""

_POD_LEVEL = frozenset({Resource.CPU, Resource.MEMORY})
"""Resources that pod-level requests may set instead of containers:
https://kubernetes.io/docs/concepts/workloads/pods/pod-level-resources/.
"""
_RESIZABLE = frozenset({Resource.CPU, Resource.MEMORY})
"""Resources of a running container that can change."""
_ONE_POD = tuple(int(resource is Resource.PODS) for resource in RESOURCES)


class Spec(Protocol):
    """The fields of core/v1 PodSpec with requests."""

    @property
    def containers(self) -> Sequence[Container] | None: ...

    @property
    def init_containers(self) -> Sequence[Container] | None: ...

    @property
    def overhead(self) -> dict[str, Any] | None: ...

    @property
    def resources(self) -> Requests | None: ...


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod to be scheduled."""

    name: str = ""
    """namespace/name."""
    uid: str = ""
    kind: str = ""
    """The kind of workload, shared by similar pods: see `reward`."""
    requests: Amounts = field(default_factory=dict)
    """Effective requests as in kube-scheduler: containers and sidecars, or the largest init container, plus overhead."""


class EffectiveRequest(NamedTuple):
    """Effective request of a pod. `problems`: requests that could not be parsed and were skipped, as sentences with the
    pod's name.
    """

    requests: ResourceVector
    """Containers and sidecars, or the maximum while init containers run, whichever is larger; plus overhead."""
    problems: tuple[str, ...] = ()


def effective(pod: PodSpecView) -> EffectiveRequest:
    """Return the effective request of a pod; never raises."""
    return _effective(_Requests(pod.spec, pod, RESOURCES, _Held(pod)))


def of_spec(spec: Spec, pod: object) -> EffectiveRequest:
    """Return the effective request of a pod's spec; `pod` is the name in problems. Never raises."""
    return _effective(_Requests(spec, pod, RESOURCES))


def _effective(parsed: "_Requests") -> EffectiveRequest:
    requests = _sum(parsed.needed(_POD_LEVEL), parsed.overhead, _ONE_POD)
    return EffectiveRequest(_shared(requests), tuple(parsed.problems))


def others(
    pod: PodSpecView, ignored: Set[str] = frozenset()
) -> tuple[ExtendedResources, tuple[str, ...]]:
    """Return a pod's requests for extended resources, and the problems of those that could not be parsed; never raises.

    Resources in `ignored` and IGNORED are left out.
    """
    found = {name for part in _request_maps(pod.spec) for name in part if is_other(name)}
    if not (names := sorted(found - IGNORED - ignored)):
        return (), ()
    parsed = _Requests(pod.spec, pod, names)
    huge = frozenset(name for name in names if name.startswith("hugepages-"))
    total = _sum(parsed.needed(huge), parsed.overhead)
    return sorted_extended(zip(names, total, strict=True)), tuple(parsed.problems)


def amounts(vector: ResourceVector) -> Amounts:
    """Return the amounts by name; zero amounts are left out."""
    return _named(vector)


def pod_view(pod: PodSpecView) -> tuple[PodView, tuple[str, ...]]:
    """Return a pod as scorers see it, and the problems of its requests."""
    found = effective(pod)
    meta = pod.metadata
    return PodView(str(pod), meta.uid, pod.kind, amounts(found.requests)), found.problems


def _request_maps(spec: Spec) -> Iterator[Mapping[str, Any]]:
    """Yield all requests of a pod, part by part."""
    yield from (container.requests for container in spec.containers or ())
    yield from (container.requests for container in spec.init_containers or ())
    yield (spec.resources and spec.resources.requests) or {}
    yield spec.overhead or {}


class _Held:
    """What the kubelet holds for a pod, by its status; it differs from the spec while a resize is under way or was refused."""

    def __init__(self, pod: PodSpecView) -> None:
        self._status = pod.status
        self._infeasible = pod.is_resize_infeasible
        self._containers = {status.name: status for status in pod.all_container_statuses}

    def by_container(self, container: Container) -> Sequence[Mapping[str, Any]]:
        """Return the requests of which the largest count for a container."""
        status = self._containers.get(container.name)
        return [container.requests] if status is None else self._among(container.requests, status)

    def by_pod(self, requests: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the requests of which the largest count for a pod with these pod-level ones."""
        return self._among(requests, self._status)

    def _among(
        self, stated: Mapping[str, Any], status: ContainerStatus | PodStatusFields
    ) -> Sequence[Mapping[str, Any]]:
        actual = status.resources and status.resources.requests
        held = [part for part in (actual, status.allocated_resources) if part]
        if not self._infeasible:  # rarely anything differs
            return [stated, *(part for part in held if part != stated)]
        if held:
            stated = {name: stated[name] for name in stated if name not in _RESIZABLE}
        return [stated, *held]


class _Requests:
    """Requests of a pod for the given resources, in their order. `held`: what its kubelet holds for it. `problems`: requests
    that could not be parsed; they count as 0.
    """

    def __init__(
        self, spec: Spec, pod: object, resources: Sequence[str], held: _Held | None = None
    ) -> None:
        self.problems: list[str] = []
        self._held = held
        self._pod = pod
        self._spec = spec
        self._resources = resources
        self._nothing = (0,) * len(resources)
        self._containers = [self._running(container) for container in spec.containers or ()]
        self._init_containers = [
            (self._running(init) if init.is_sidecar else self._read(init.requests), init.is_sidecar)
            for init in spec.init_containers or ()
        ]

    def needed(self, pod_level: Set[str]) -> ResourceVector:
        """Return the maximum at any time. `pod_level`: resources whose pod-level request replaces those of the containers."""
        whole, vector = self._spec.resources, self._at_most()
        if not (whole and whole.requests):
            return vector
        stated = self._largest(
            self._held.by_pod(whole.requests) if self._held else [whole.requests]
        )
        return tuple(
            stated.get(resource, value) if resource in pod_level else value
            for resource, value in zip(self._resources, vector, strict=True)
        )

    @property
    def overhead(self) -> ResourceVector:
        """The pod's overhead."""
        return self._read(self._spec.overhead or {})

    def _at_most(self) -> ResourceVector:
        """Init containers run in order, each beside the sidecars before it; containers run beside all sidecars."""
        sidecars = starting = self._nothing
        for request, is_sidecar in self._init_containers:
            beside = plus(sidecars, request)
            starting = _most(starting, beside)
            if is_sidecar:
                sidecars = beside
        return _most(_sum(sidecars, *self._containers), starting)

    def _running(self, container: Container) -> ResourceVector:
        """Return the requests of a container that can be resized."""
        if self._held is None:
            return self._read(container.requests)
        return self._vector(self._largest(self._held.by_container(container)))

    def _read(self, requests: Mapping[str, Any]) -> ResourceVector:
        return self._vector(self._amounts(requests))

    def _largest(self, requests: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        found: dict[str, int] = {}
        for part in requests:
            for name, value in self._amounts(part).items():
                found[name] = max(value, found.get(name, 0))
        return found

    def _vector(self, found: Mapping[str, int]) -> ResourceVector:
        return tuple(found.get(name, 0) for name in self._resources) if found else self._nothing

    def _amounts(self, requests: Mapping[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for resource in self._resources:
            if resource in requests and resource != Resource.PODS:
                try:
                    found[resource] = amount(resource, str(requests[resource]))
                except ValueError as error:
                    what = f"its request for {resource} is {error}"
                    self.problems.append(f"pod {self._pod}: {what}")
        return found


def _sum(*vectors: ResourceVector) -> ResourceVector:
    return tuple(map(sum, zip(*vectors, strict=True)))


def _most(*vectors: ResourceVector) -> ResourceVector:
    return tuple(map(max, zip(*vectors, strict=True)))


@lru_cache(maxsize=4096)
def _shared(vector: ResourceVector) -> ResourceVector:
    """Cached, so that pods with equal requests share one object."""
    return vector


@lru_cache(maxsize=4096)
def _named(vector: ResourceVector) -> Amounts:
    return MappingProxyType(dict(_nonzero(vector)))


def _nonzero(vector: ResourceVector) -> Iterator[tuple[Resource, float]]:
    for resource, value in zip(RESOURCES, vector, strict=True):
        if value:
            yield resource, float(value)
