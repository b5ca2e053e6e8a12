"""What a pod asks for in all, out of what its containers ask for, as kube-scheduler counts it.

https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from evaluator.model.pod_demand import Amounts, PodView, Resource
from evaluator.model.pods import PodSpecView
from evaluator.model.resources import (
    RESOURCES,
    ExtendedResources,
    ResourceVector,
    amount,
    is_other,
    plus,
)
from evaluator.model.resources import extended_resources as named_others

IGNORED = frozenset({"telemetry/scheduling"})
"""Resources that kube-scheduler is told not to count: pods ask for them so that an extender is asked about them."""

_OF_PODS = frozenset({Resource.CPU, Resource.MEMORY})
"""What a pod can ask for as a whole, in place of its containers: https://kubernetes.io/docs/concepts/workloads/pods/pod-level-resources/."""
_ONE_POD = tuple(int(resource is Resource.PODS) for resource in RESOURCES)


class EffectiveRequest(NamedTuple):
    """What a pod asks for. `problems`, in words that name the pod: what could not be read, and was passed over."""

    requests: ResourceVector
    """Containers and sidecars, or the most that is needed at one time while init containers run; and the overhead."""
    problems: tuple[str, ...] = ()


def effective(pod: PodSpecView) -> EffectiveRequest:
    """What a pod asks for; never raises."""
    asked = _Asked(pod, RESOURCES)
    requests = _sum(asked.needed(_OF_PODS), asked.overhead, _ONE_POD)
    return EffectiveRequest(_shared(requests), tuple(asked.problems))


def others(
    pod: PodSpecView, ignored: Set[str] = frozenset()
) -> tuple[ExtendedResources, tuple[str, ...]]:
    """What a pod asks for of resources that scorers do not know, and what of it could not be read; never raises.

    Nothing is said of those that are `ignored`, nor ever of IGNORED.
    """
    found = {name for told in _told(pod) for name in told if is_other(name)}
    if not (names := sorted(found - IGNORED - ignored)):
        return (), ()
    asked = _Asked(pod, names)
    huge = frozenset(name for name in names if name.startswith("hugepages-"))
    total = _sum(asked.needed(huge), asked.overhead)
    return named_others(zip(names, total, strict=True)), tuple(asked.problems)


def amounts(vector: ResourceVector) -> Amounts:
    """The same by name; what is not asked for is not named."""
    return _named(vector)


def pod_view(pod: PodSpecView) -> tuple[PodView, tuple[str, ...]]:
    """A pod as scorers see it, and what could not be read of what it asks for."""
    found = effective(pod)
    meta = pod.metadata
    return PodView(str(pod), meta.uid, pod.kind, amounts(found.requests)), found.problems


def _told(pod: PodSpecView) -> Iterator[Mapping[str, Any]]:
    """All that a pod asks for, part by part."""
    spec = pod.spec
    yield from (container.requests for container in spec.containers or ())
    yield from (container.requests for container in spec.init_containers or ())
    yield (spec.resources and spec.resources.requests) or {}
    yield spec.overhead or {}


class _Asked:
    """What a pod asks for of some resources, in their order. `problems`: what could not be read, and counts as nothing."""

    def __init__(self, pod: PodSpecView, resources: Sequence[str]) -> None:
        self.problems: list[str] = []
        self._pod = pod
        self._resources = resources
        self._nothing = (0,) * len(resources)
        spec = pod.spec
        self._containers = [self._read(container.requests) for container in spec.containers or ()]
        self._starters = [
            (self._read(init.requests), init.stays) for init in spec.init_containers or ()
        ]

    def needed(self, of_pods: Set[str]) -> ResourceVector:
        """The most at one time. `of_pods`: resources of which what the pod as a whole asks for goes before its containers."""
        whole, vector = self._pod.spec.resources, self._at_most()
        if not (whole and whole.requests):
            return vector
        stated = self._amounts(whole.requests)
        return tuple(
            stated.get(resource, value) if resource in of_pods else value
            for resource, value in zip(self._resources, vector, strict=True)
        )

    @property
    def overhead(self) -> ResourceVector:
        """What its runtime takes beside."""
        return self._read(self._pod.spec.overhead or {})

    def _at_most(self) -> ResourceVector:
        """Init containers run one after another, each beside the sidecars before it; the containers beside all sidecars."""
        sidecars = starting = self._nothing
        for asked, stays in self._starters:
            beside = plus(sidecars, asked)
            starting = _most(starting, beside)
            if stays:
                sidecars = beside
        return _most(_sum(sidecars, *self._containers), starting)

    def _read(self, told: Mapping[str, Any]) -> ResourceVector:
        found = self._amounts(told)
        return tuple(found.get(name, 0) for name in self._resources) if found else self._nothing

    def _amounts(self, told: Mapping[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for resource in self._resources:
            if resource in told and resource != Resource.PODS:
                try:
                    found[resource] = amount(resource, str(told[resource]))
                except ValueError as error:
                    what = f"what it requests of {resource} is {error}"
                    self.problems.append(f"pod {self._pod}: {what}")
        return found


def _sum(*vectors: ResourceVector) -> ResourceVector:
    return tuple(map(sum, zip(*vectors, strict=True)))


def _most(*vectors: ResourceVector) -> ResourceVector:
    return tuple(map(max, zip(*vectors, strict=True)))


@lru_cache(maxsize=4096)
def _shared(vector: ResourceVector) -> ResourceVector:
    """The pods of a workload ask for the same: one object for all of them."""
    return vector


@lru_cache(maxsize=4096)
def _named(vector: ResourceVector) -> Amounts:
    return MappingProxyType(dict(_nonzero(vector)))


def _nonzero(vector: ResourceVector) -> Iterator[tuple[Resource, float]]:
    for resource, value in zip(RESOURCES, vector, strict=True):
        if value:
            yield resource, float(value)
