"""What a pod asks for in all, out of what its containers ask for: as kube-scheduler counts it, and as kube-safe-scheduler does.

https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from evaluator.amounts import NOTHING, RESOURCES, Vector, amount, plus
from evaluator.scoring.pod import Amounts, PodView, Resource
from evaluator.workload import Workload

_OF_PODS = frozenset({Resource.CPU, Resource.MEMORY})
"""What a pod can ask for as a whole, in place of its containers: https://kubernetes.io/docs/concepts/workloads/pods/pod-level-resources/."""
_ONE_POD = tuple(int(resource is Resource.PODS) for resource in RESOURCES)


class Effective(NamedTuple):
    """What a pod asks for. `problems`, in words that name the pod: what could not be read, and was passed over."""

    requests: Vector
    """Containers and sidecars, or the most that is needed at one time while init containers run; and the overhead."""
    peak: Vector
    """Containers, or any single init container that asks for more."""
    problems: tuple[str, ...] = ()


def effective(pod: Workload) -> Effective:
    """What a pod asks for; never raises."""
    problems: list[str] = []
    spec = pod.spec

    def read(asked: Mapping[str, Any]) -> Vector:
        return _filled(_amounts(asked, pod, problems))

    containers = [read(container.requests) for container in spec.containers or ()]
    starters = [(read(init.requests), init.stays) for init in spec.init_containers or ()]
    needed = _overridden(_at_most(containers, starters), spec.resources, pod, problems)
    requests = _sum(needed, read(spec.overhead or {}), _ONE_POD)
    peak = _most(_sum(*containers), *(asked for asked, _ in starters))
    return Effective(_shared(requests), _shared(plus(peak, _ONE_POD)), tuple(problems))


def amounts(vector: Vector) -> Amounts:
    """The same by name; what is not asked for is not named."""
    return _named(vector)


def pod_view(pod: Workload) -> tuple[PodView, tuple[str, ...]]:
    """A pod as scorers see it, and what could not be read of what it asks for."""
    found = effective(pod)
    meta = pod.metadata
    requests, peak = amounts(found.requests), amounts(found.peak)
    return PodView(str(pod), meta.uid, pod.kind, requests, peak), found.problems


def _amounts(asked: Mapping[str, Any], pod: Workload, problems: list[str]) -> dict[Resource, int]:
    found: dict[Resource, int] = {}
    for resource in RESOURCES:
        if resource in asked and resource is not Resource.PODS:
            try:
                found[resource] = amount(resource, str(asked[resource]))
            except ValueError as error:
                problems.append(f"pod {pod}: what it requests of {resource} is {error}")
    return found


def _filled(found: Mapping[Resource, int]) -> Vector:
    return tuple(found.get(resource, 0) for resource in RESOURCES) if found else NOTHING


def _at_most(containers: list[Vector], starters: list[tuple[Vector, bool]]) -> Vector:
    """Init containers run one after another, each beside the sidecars before it; the containers beside all sidecars."""
    sidecars, starting = NOTHING, NOTHING
    for asked, stays in starters:
        beside = plus(sidecars, asked)
        starting = _most(starting, beside)
        if stays:
            sidecars = beside
    return _most(_sum(sidecars, *containers), starting)


def _overridden(vector: Vector, whole: Any, pod: Workload, problems: list[str]) -> Vector:
    if not (whole and whole.requests):
        return vector
    stated = _amounts(whole.requests, pod, problems)
    return tuple(
        stated.get(resource, value) if resource in _OF_PODS else value
        for resource, value in zip(RESOURCES, vector, strict=True)
    )


def _sum(*vectors: Vector) -> Vector:
    return tuple(map(sum, zip(*vectors, strict=True))) if vectors else NOTHING


def _most(*vectors: Vector) -> Vector:
    return tuple(map(max, zip(*vectors, strict=True)))


@lru_cache(maxsize=4096)
def _shared(vector: Vector) -> Vector:
    """The pods of a workload ask for the same: one object for all of them."""
    return vector


@lru_cache(maxsize=4096)
def _named(vector: Vector) -> Amounts:
    return MappingProxyType(dict(_nonzero(vector)))


def _nonzero(vector: Vector) -> Iterator[tuple[Resource, float]]:
    for resource, value in zip(RESOURCES, vector, strict=True):
        if value:
            yield resource, float(value)
