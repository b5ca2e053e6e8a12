"""Amounts of the resources that scorers know: in whole milli-CPU, bytes and pieces, rounded up as kube-scheduler does.

Whole, so that sums are exact in whatever order they are made.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from evaluator.model.pod_demand import Resource
from plimsoll import quantity

RESOURCES = tuple(Resource)
"""What is counted, in the order of a Vector."""

ResourceVector = tuple[int, ...]
"""An amount of each of RESOURCES."""

NOTHING: ResourceVector = (0,) * len(RESOURCES)

ExtendedResources = tuple[tuple[str, int], ...]
"""Amounts of resources that are not among RESOURCES, by name, in the order of the names."""

Room = tuple[float, ...]
"""An amount of each of RESOURCES; `math.nan` where it is not known."""

_ALWAYS_TOLD = frozenset({Resource.CPU, Resource.MEMORY})
"""What every node has. Of the others it has none if it does not say."""
_MOST = 2**63 - 1
"""Kubernetes holds no quantity to be more."""


_MANY = 16
"""More kinds of them than nodes have, and too many to be remembered."""
_KNOWN = frozenset(RESOURCES)
_COUNTED_PREFIXES = ("hugepages-", "attachable-volumes-")
"""Of the names without a slash, those that are resources of a node; with one, all are."""


@lru_cache(maxsize=4096)
def amount(resource: str, text: str) -> int:
    """A quantity of a resource. Raises ValueError for none, and for one below 0."""
    value = quantity.exact(text)
    if value < 0:
        raise ValueError(f"a quantity below zero: {text[:80]!r}")
    return min(math.ceil(value * 1000 if resource == Resource.CPU else value), _MOST)


def allocatable(told: Mapping[str, Any]) -> Room:
    """What a node says it has for pods."""
    return _shared(tuple(_has(resource, told) for resource in RESOURCES))


def is_other(resource: str) -> bool:
    """Whether it is one that scorers do not know and that kube-scheduler counts: extended resources, and huge pages."""
    return resource not in _KNOWN and ("/" in resource or resource.startswith(_COUNTED_PREFIXES))


def other_room(told: Mapping[str, Any]) -> ExtendedResources:
    """What a node says it has of them. What cannot be read is not there."""
    return extended_resources((name, _pieces(name, told[name])) for name in told if is_other(name))


def extended_resources(told: Iterable[tuple[str, int]]) -> ExtendedResources:
    """Amounts by name, made one object for all who have the same; what there is nothing of is left out."""
    found = tuple(sorted(pair for pair in told if pair[1]))
    return found if len(found) > _MANY else _shared_others(found)


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


def _has(resource: Resource, told: Mapping[str, Any]) -> float:
    text = told.get(resource)
    if text is None:
        return math.nan if resource in _ALWAYS_TOLD else 0.0
    try:
        return float(amount(resource, str(text)))
    except ValueError:
        return math.nan


def _pieces(name: str, told: object) -> int:
    try:
        return amount(name, str(told))
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
    """Nodes of one sort have the same, and so do pods."""
    return found


@lru_cache(maxsize=1024)
def _shared(found: Room) -> Room:
    """Nodes of one sort have the same: one object for all of them."""
    return found
