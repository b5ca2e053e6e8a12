"""Capacity of nodes, and first-fit packing of pods. No I/O.

Shapes are packed one after the other: those with the fewest eligible nodes first, then the largest, each on the nodes in order.
This is exact for one shape. For several it is a heuristic, like kube-scheduler's own: pods that fit only by an optimal choice
of nodes count as not fitting, as kube-scheduler would not find that choice either.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex
from evaluator.core.model.resources import RESOURCES, ExtendedResources, ResourceVector
from evaluator.features.gangs.core.membership import PlacementConstraints, PodShape

Demand = Mapping[PodShape, int]
"""The number of pods by shape."""

_PLENTY = 2.0**31
"""Pods per node if they request nothing."""
_SOME = 256
"""Nodes computed at a time where the first ones probably suffice."""
_ALL = slice(None)
_NOWHERE = "nodes"
"""The value of `Shortage.short` if no node is eligible."""


class Shortage(NamedTuple):
    """Why pods do not fit: at most `fit` of `requested` do."""

    fit: int
    requested: int
    nodes: int
    """The number of eligible nodes for the shape that does not fit."""
    short: str
    """The scarcest resource for that shape; `nodes` if none is eligible."""


@dataclass(frozen=True)
class Capacity:
    """Free and allocatable amounts as (resources, nodes), NaN if unknown.

    `resources`: RESOURCES, then extended resources. `allowed` returns the eligible nodes for pods with these constraints and
    this policy; with None, the nodes that satisfy the constraints.
    """

    nodes: NodeIndex
    resources: tuple[str, ...]
    free: Floats
    whole: Floats
    allowed: Callable[[PlacementConstraints, PolicyKey | None], Mask]

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """The row of each resource."""
        return {name: row for row, name in enumerate(self.resources)}

    @cached_property
    def most(self) -> Floats:
        """The largest allocatable amount on one node as (resources,); at least 1."""
        largest: Floats = np.nanmax(self.whole, axis=1, initial=1.0)
        return largest


class _ShapeCapacity(NamedTuple):
    """How many pods of a shape fit: by node, and in total."""

    capacity: Floats
    total: int


@dataclass(slots=True)
class _Known:
    """Results that are valid until capacity is taken."""

    capacities: dict[PodShape, _ShapeCapacity] = field(default_factory=dict)
    shortages: dict[tuple[PodShape, int, int], Shortage] = field(default_factory=dict)
    sure: dict[tuple[frozenset[PodShape], int], bool] = field(default_factory=dict)


class Packing:
    """Packs pods step by step. `empty`: on empty nodes and without policies."""

    def __init__(self, capacity: Capacity, *, empty: bool = False) -> None:
        self._capacity = capacity
        self._empty = empty
        # Nodes of unknown capacity count as full.
        self._free = np.maximum(np.nan_to_num(capacity.whole if empty else capacity.free), 0.0)
        self._known = _Known()

    def shortage(self, demand: Demand, *, need: int) -> Shortage | None:
        """Return why `need` of these pods do not fit; None if they do."""
        need = max(need, 1)
        if len(demand) == 1:
            [(shape, count)] = demand.items()
            fit = min(count, self._shape_capacity(shape).total)
            return None if fit >= need else self._shortage(shape, fit, count)
        if self._empty and self._at_least(demand, need):  # the rule, and quick
            return None
        fit = requested = sum(demand.values())
        # A shape gets at most what it would get alone.
        for shape in sorted(demand, key=_amounts, reverse=True):
            fit -= max(0, demand[shape] - self._shape_capacity(shape).total)
            if fit < need:
                return self._shortage(shape, fit, requested)
        if (placed := self._tried(demand)).total() >= need:
            return None
        lacking = next(shape for shape, count in demand.items() if placed[shape] < count)
        return self._shortage(lacking, placed.total(), requested)

    def place(self, demand: Demand) -> None:
        """Take the capacity for as many of these pods as fit."""
        for shape, count in self._ordered(demand):
            self._take(shape, count)

    def order(self, demand: Demand) -> list[PodShape]:
        """Return the shapes in packing order: fewest eligible nodes first, then largest."""
        return [shape for shape, _ in self._ordered(demand)]

    def capacity(self, shape: PodShape) -> Floats:
        """Return how many pods of a shape fit, as (nodes,); read-only."""
        return self._shape_capacity(shape).capacity

    def _at_least(self, demand: Demand, need: int) -> bool:
        """Return whether `need` pods fit in any order: each is taken to request the maximum over all shapes.

        Only nodes eligible for all shapes count; stops as soon as there are enough.
        """
        key = frozenset(demand), need
        if key not in self._known.sure:
            requests, others = _largest(demand)
            allowed = np.logical_and.reduce(self._masks(demand))
            count = 0.0
            for first in range(0, len(allowed), _SOME):
                some = slice(first, first + _SOME)
                count += float(self._enough(requests, others, some) @ allowed[some])
                if count >= need:
                    break
            self._known.sure[key] = count >= need
        return self._known.sure[key]

    def _masks(self, demand: Demand) -> list[Mask]:
        constraints = {(shape.where, shape.policy) for shape in demand}
        return [self._allowed(where, policy) for where, policy in constraints]

    def _tried(self, demand: Demand) -> Counter[PodShape]:
        """Return how many pods of each shape fit together; takes nothing."""
        before, known = self._free.copy(), self._known
        self._known = _Known()
        taken = Counter({shape: self._take(shape, count) for shape, count in self._ordered(demand)})
        self._free, self._known = before, known
        return taken

    def _take(self, shape: PodShape, count: int) -> int:
        """Take the capacity for up to `count` pods; return how many fit."""
        capacity = self.capacity(shape)
        before = capacity.cumsum() - capacity
        taken = np.clip(count - before, 0, capacity)
        for row, amount in self._requested_rows(shape.requests, shape.others):
            if row >= 0:
                self._free[row] -= amount * taken
        self._known = _Known()
        return int(taken.sum())

    def _shape_capacity(self, shape: PodShape) -> "_ShapeCapacity":
        shape_capacity = self._known.capacities.get(shape)
        if shape_capacity is None:
            capacity = self._counted(shape)
            shape_capacity = self._known.capacities[shape] = _ShapeCapacity(
                capacity, int(capacity.sum())
            )
        return shape_capacity

    def _counted(self, shape: PodShape) -> Floats:
        return self._enough(shape.requests, shape.others) * self._allowed(shape.where, shape.policy)

    def _enough(
        self, requests: ResourceVector, others: ExtendedResources, some: slice = _ALL
    ) -> Floats:
        """Return how many such pods fit by requests alone, as (some nodes,)."""
        requested = self._requested_rows(requests, others)
        capacities = [self._capacity_for(row, amount, some) for row, amount in requested]
        least = capacities[0] if capacities else np.full(len(self._free[0, some]), _PLENTY)
        for capacity in capacities[1:]:
            np.minimum(least, capacity, out=least)
        return least

    def _capacity_for(self, row: int, amount: int, some: slice = _ALL) -> Floats:
        """Return how many pods fit by one resource, as (some nodes,)."""
        if row < 0:
            return np.zeros(len(self._free[0, some]))
        capacity: Floats = np.floor(self._free[row, some] / amount)
        return capacity

    def _allowed(self, where: PlacementConstraints, policy: PolicyKey | None) -> Mask:
        return self._capacity.allowed(where, None if self._empty else policy)

    def _requested_rows(
        self, requests: ResourceVector, others: ExtendedResources
    ) -> Iterator[tuple[int, int]]:
        """Yield row and amount of each requested resource; row -1 for one that no node has."""
        yield from ((row, amount) for row, amount in enumerate(requests) if amount)
        yield from ((self._capacity.row_of.get(name, -1), n) for name, n in others if n)

    def _ordered(self, demand: Demand) -> list[tuple[PodShape, int]]:
        items = list(demand.items())
        return sorted(items, key=self._precedence) if len(items) > 1 else items

    def _precedence(self, item: tuple[PodShape, int]) -> tuple[object, ...]:
        shape, _ = item
        tie_breaker = (shape.requests, shape.others, shape.where.constraints, str(shape.policy))
        share = max(
            (
                n / self._capacity.most[row]
                for row, n in self._requested_rows(shape.requests, shape.others)
                if row >= 0
            ),
            default=0.0,
        )
        return int(np.count_nonzero(self._allowed(shape.where, shape.policy))), -share, tie_breaker

    def _shortage(self, shape: PodShape, fit: int, requested: int) -> Shortage:
        shortage = self._known.shortages.get((shape, fit, requested))
        if shortage is None:
            allowed = self._allowed(shape.where, shape.policy)
            nodes = int(np.count_nonzero(allowed))
            short = self._shortest(shape, allowed) if nodes else _NOWHERE
            shortage = self._known.shortages[shape, fit, requested] = Shortage(
                fit, requested, nodes, short
            )
        return shortage

    def _shortest(self, shape: PodShape, allowed: Mask) -> str:
        """Return the resource by which the fewest pods fit."""
        names = [str(resource) for resource, n in zip(RESOURCES, shape.requests, strict=True) if n]
        names += [name for name, n in shape.others if n]
        capacities = [
            self._capacity_for(row, amount) @ allowed
            for row, amount in self._requested_rows(shape.requests, shape.others)
        ]
        return min(zip(capacities, names, strict=True))[1] if names else _NOWHERE


def _largest(shapes: Collection[PodShape]) -> tuple[ResourceVector, ExtendedResources]:
    """Return the largest request of each resource over some shapes."""
    requests = tuple(map(max, zip(*(shape.requests for shape in shapes), strict=True)))
    # dict() keeps the last value of a name, which is the largest.
    others = dict(sorted(each for shape in shapes for each in shape.others))
    return requests, tuple(others.items())


def _amounts(shape: PodShape) -> tuple[ExtendedResources, ResourceVector]:
    return shape.others, shape.requests
