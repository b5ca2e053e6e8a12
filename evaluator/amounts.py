"""Amounts of the resources that scorers know: in whole milli-CPU, bytes and pieces, rounded up as kube-scheduler does.

Whole, so that sums are exact in whatever order they are made.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from evaluator import quantity
from evaluator.scoring.pod import Resource

RESOURCES = tuple(Resource)
"""What is counted, in the order of a Vector."""

Vector = tuple[int, ...]
"""An amount of each of RESOURCES."""

NOTHING: Vector = (0,) * len(RESOURCES)

Others = tuple[tuple[str, int], ...]
"""Amounts of resources that are not among RESOURCES, by name, in the order of the names."""

Room = tuple[float, ...]
"""An amount of each of RESOURCES; `math.nan` where it is not known."""

_ALWAYS_TOLD = frozenset({Resource.CPU, Resource.MEMORY})
"""What every node has. Of the others it has none if it does not say."""
_MOST = 2**63 - 1
"""Kubernetes holds no quantity to be more."""


@lru_cache(maxsize=4096)
def amount(resource: Resource, text: str) -> int:
    """A quantity of a resource. Raises ValueError for none, and for one below 0."""
    value = quantity.exact(text)
    if value < 0:
        raise ValueError(f"a quantity below zero: {text[:80]!r}")
    return min(math.ceil(value * 1000 if resource is Resource.CPU else value), _MOST)


def room(told: Mapping[str, Any]) -> Room:
    """What a node says it has for pods."""
    return _shared(tuple(_has(resource, told) for resource in RESOURCES))


def plus(one: Vector, other: Vector) -> Vector:
    """Both together."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def minus(one: Vector, other: Vector) -> Vector:
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


@lru_cache(maxsize=1024)
def _shared(found: Room) -> Room:
    """Nodes of one sort have the same: one object for all of them."""
    return found
