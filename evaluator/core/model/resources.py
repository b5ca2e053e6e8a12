"""Amounts of resources as integers: milli-CPU, bytes and units, rounded up as in kube-scheduler; and metrics of their usage.

Integers keep sums exact in any order.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from plimsoll import quantity

USAGE_WINDOW = 300.0
"""Seconds of the usage window: the means do not fully include pods bound more recently."""

CPU_MEAN = "node_cpu_used_mean_5m_cores"
CPU_DEVIATION = "node_cpu_used_stddev_5m_cores"
MEMORY_MEAN = "node_memory_used_mean_5m_bytes"
MEMORY_DEVIATION = "node_memory_used_stddev_5m_bytes"
CONGESTION = "node_network_congestion_ratio"

USAGE_METRICS = (CPU_MEAN, CPU_DEVIATION, MEMORY_MEAN, MEMORY_DEVIATION, CONGESTION)
"""Series recorded by deploy/rules/usage.yaml. Agents report those in the `metrics` of an enabled scorer."""

MEAN_FREE_CPU = "mean-free-cpu"
"""In milli-CPU, as are the next two."""
STD_FREE_CPU = "std-free-cpu"
FORECAST_FREE_CPU = "forcasted-free-cpu"
"""Misspelt, as written by existing producers."""
MEAN_FREE_MEMORY = "mean-free-memory"
"""In bytes, as are the next two."""
STD_FREE_MEMORY = "std-free-memory"
FORECAST_FREE_MEMORY = "forcasted-free-memory"
CONGESTION_FACTOR = "congestion-factor"

USAGE_ANNOTATIONS = (
    MEAN_FREE_CPU,
    STD_FREE_CPU,
    FORECAST_FREE_CPU,
    MEAN_FREE_MEMORY,
    STD_FREE_MEMORY,
    FORECAST_FREE_MEMORY,
    CONGESTION_FACTOR,
)
"""The node annotations for scorers that are kept, in this order."""


class Resource(StrEnum):
    """Requested resources by their Kubernetes names; in milli-CPU, bytes or units."""

    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"
    GPU = "nvidia.com/gpu"
    EPHEMERAL_STORAGE = "ephemeral-storage"


Amounts = Mapping[Resource, float]
"""Requests of one pod; an absent resource is 0."""

RESOURCES = tuple(Resource)
"""The counted resources, in the order of a ResourceVector."""

ResourceVector = tuple[int, ...]
"""An amount of each of RESOURCES."""

NOTHING: ResourceVector = (0,) * len(RESOURCES)

ExtendedResources = tuple[tuple[str, int], ...]
"""Amounts of resources outside RESOURCES, sorted by name."""

Allocatable = tuple[float, ...]
"""An amount of each of RESOURCES; `math.nan` if unknown."""

_ALWAYS_PRESENT = frozenset({Resource.CPU, Resource.MEMORY})
"""Resources that every node has; other resources are 0 if absent."""
_MOST = 2**63 - 1
"""The maximum of a Kubernetes quantity."""


_MOST_CACHED = 16
"""Lists with more kinds than real nodes have are not cached."""
_KNOWN = frozenset(RESOURCES)
_COUNTED_PREFIXES = ("hugepages-", "attachable-volumes-")
"""Prefixes of countable resource names without a slash; names with a slash are always countable."""


@lru_cache(maxsize=4096)
def amount(resource: str, text: str) -> int:
    """Return a quantity as an integer. Raises ValueError if it is malformed or negative."""
    value = quantity.exact(text)
    if value < 0:
        raise ValueError(f"a quantity below zero: {text[:80]!r}")
    return min(math.ceil(value * 1000 if resource == Resource.CPU else value), _MOST)


def allocatable(amounts: Mapping[str, Any]) -> Allocatable:
    """Return a node's allocatable amounts of RESOURCES."""
    return _shared(tuple(_has(resource, amounts) for resource in RESOURCES))


def is_other(resource: str) -> bool:
    """Return whether kube-scheduler counts the resource and it is not in RESOURCES: extended resources and huge pages."""
    return resource not in _KNOWN and ("/" in resource or resource.startswith(_COUNTED_PREFIXES))


def allocatable_extended(amounts: Mapping[str, Any]) -> ExtendedResources:
    """Return a node's allocatable extended resources; malformed quantities are left out."""
    return extended_resources(
        (name, _pieces(name, amounts[name])) for name in amounts if is_other(name)
    )


def extended_resources(amounts: Iterable[tuple[str, int]]) -> ExtendedResources:
    """Return the amounts sorted by name, one shared object for equal ones; zeros are left out."""
    found = tuple(sorted(pair for pair in amounts if pair[1]))
    return found if len(found) > _MOST_CACHED else _shared_others(found)


def others_plus(one: ExtendedResources, other: ExtendedResources) -> ExtendedResources:
    """Both together."""
    return _both(one, other, operator.add) if one and other else one or other


def others_minus(one: ExtendedResources, other: ExtendedResources) -> ExtendedResources:
    """What is left of one without the other."""
    return _both(one, other, operator.sub) if other else one


def plus(one: ResourceVector, other: ResourceVector) -> ResourceVector:
    """Both together."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def minus(one: ResourceVector, other: ResourceVector) -> ResourceVector:
    """What is left of one without the other."""
    return tuple(a - b for a, b in zip(one, other, strict=True))


def _has(resource: Resource, amounts: Mapping[str, Any]) -> float:
    text = amounts.get(resource)
    if text is None:
        return math.nan if resource in _ALWAYS_PRESENT else 0.0
    try:
        return float(amount(resource, str(text)))
    except ValueError:
        return math.nan


def _pieces(name: str, amounts: object) -> int:
    try:
        return amount(name, str(amounts))
    except ValueError:
        return 0


def _both(
    one: ExtendedResources, other: ExtendedResources, operation: Callable[[int, int], int]
) -> ExtendedResources:
    mine, theirs = dict(one), dict(other)
    names = mine.keys() | theirs.keys()
    return extended_resources(
        (name, operation(mine.get(name, 0), theirs.get(name, 0))) for name in names
    )


@lru_cache(maxsize=4096)
def _shared_others(found: ExtendedResources) -> ExtendedResources:
    """Cached, so that similar nodes, and similar pods, share one object."""
    return found


@lru_cache(maxsize=1024)
def _shared(found: Allocatable) -> Allocatable:
    """Cached, so that similar nodes share one object."""
    return found
