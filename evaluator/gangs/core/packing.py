"""The room that nodes have, and whether pods fit in it together. No I/O.

Pods are put one shape after the other, the pickiest and then the largest first, each shape on the nodes in their order as
far as they go. That finds a place for pods of one shape whenever there is one. For pods of several shapes it is a
heuristic, as kube-scheduler's own way is: what fits only by a clever choice of nodes does not count as fitting, since
nobody would make that choice.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evaluator.gangs.core.pod_shape import PodShape
from evaluator.model.gang_membership import Where
from evaluator.model.names import PolicyKey
from evaluator.model.node_index import Floats, Mask, NodeIndex
from evaluator.model.resources import RESOURCES, ExtendedResources, ResourceVector

Demand = Mapping[PodShape, int]
"""How many pods of each shape."""

_PLENTY = 2.0**31
"""Pods on a node, where nothing that they ask for bounds them."""
_SOME = 256
"""Nodes that are looked at at a time, where the first ones are likely to do."""
_ALL = slice(None)
_NOWHERE = "nodes"
"""What is short where no node may take a pod at all."""


class Shortage(NamedTuple):
    """Why pods do not fit: there is room for `fit` of `wanted` at most, at one time."""

    fit: int
    wanted: int
    nodes: int
    """Those that may take a pod of the shape that does not fit, were there room."""
    short: str
    """The resource that there is least of, for that shape; `nodes` where none may take it."""


@dataclass(frozen=True)
class Capacity:
    """`free` and `whole`: what is free of each node, and what it has in all; resources by nodes, `math.nan` where not known.

    `resources` begins with RESOURCES, and names after them what else nodes have. `allowed` says which nodes may take pods
    of a policy that ask this of a node; without a policy, which of them could.
    """

    nodes: NodeIndex
    resources: tuple[str, ...]
    free: Floats
    whole: Floats
    allowed: Callable[[Where, PolicyKey | None], Mask]

    @cached_property
    def place(self) -> Mapping[str, int]:
        """The row of each resource."""
        return {name: row for row, name in enumerate(self.resources)}

    @cached_property
    def most(self) -> Floats:
        """Of each resource, what the node has that has most of it; 1 where none has any."""
        found: Floats = np.nanmax(self.whole, axis=1, initial=1.0)
        return found


class _ShapeCapacity(NamedTuple):
    """For how many pods each node has room, and all of them."""

    room: Floats
    total: int


@dataclass(slots=True)
class _Known:
    """What was worked out and holds until room is taken."""

    capacities: dict[PodShape, _ShapeCapacity] = field(default_factory=dict)
    shortages: dict[tuple[PodShape, int, int], Shortage] = field(default_factory=dict)
    sure: dict[tuple[frozenset[PodShape], int], bool] = field(default_factory=dict)


class Packing:
    """Room that is taken step by step. `empty`: as if nothing ran on the nodes, and no policy kept pods off them."""

    def __init__(self, capacity: Capacity, *, empty: bool = False) -> None:
        self._capacity = capacity
        self._empty = empty
        # Of a node of which it is not known what it has, as of one that is full, nothing is to be had.
        self._free = np.maximum(np.nan_to_num(capacity.whole if empty else capacity.free), 0.0)
        self._known = _Known()

    def shortage(self, demand: Demand, *, need: int) -> Shortage | None:
        """What is short for so many of these pods; None if they fit."""
        need = max(need, 1)
        if len(demand) == 1:
            [(shape, count)] = demand.items()
            fit = min(count, self._shape_capacity(shape).total)
            return None if fit >= need else self._shortage(shape, fit, count)
        if self._empty and self._at_least(demand, need):  # the rule, and quick
            return None
        fit = wanted = sum(demand.values())
        # What a shape could have alone bounds what it gets beside others.
        for shape in sorted(demand, key=_amounts, reverse=True):
            fit -= max(0, demand[shape] - self._shape_capacity(shape).total)
            if fit < need:
                return self._shortage(shape, fit, wanted)
        if (found := self._tried(demand)).total() >= need:
            return None
        lacking = next(shape for shape, count in demand.items() if found[shape] < count)
        return self._shortage(lacking, found.total(), wanted)

    def take(self, demand: Demand) -> None:
        """Take the room for as many of these pods as fit."""
        for shape, count in self._ordered(demand):
            self._take(shape, count)

    def order(self, demand: Demand) -> list[PodShape]:
        """The shapes as they are put: the pickiest and the largest first."""
        return [shape for shape, _ in self._ordered(demand)]

    def room(self, shape: PodShape) -> Floats:
        """For how many pods of a shape each node has room; not to be written to."""
        return self._shape_capacity(shape).room

    def _at_least(self, demand: Demand, need: int) -> bool:
        """Whether so many of these fit in whatever order, as they do if each asks for the most that one of them does.

        Counted where all of them may go, no further than needed.
        """
        key = frozenset(demand), need
        if key not in self._known.sure:
            requests, others = _largest(demand)
            allowed = np.logical_and.reduce(self._masks(demand))
            found = 0.0
            for first in range(0, len(allowed), _SOME):
                some = slice(first, first + _SOME)
                found += float(self._enough(requests, others, some) @ allowed[some])
                if found >= need:
                    break
            self._known.sure[key] = found >= need
        return self._known.sure[key]

    def _masks(self, demand: Demand) -> list[Mask]:
        places = {(shape.where, shape.policy) for shape in demand}
        return [self._allowed(where, policy) for where, policy in places]

    def _tried(self, demand: Demand) -> Counter[PodShape]:
        """How many of each shape are put, if it is come to; afterwards nothing is taken."""
        before, known = self._free.copy(), self._known
        self._known = _Known()
        taken = Counter({shape: self._take(shape, count) for shape, count in self._ordered(demand)})
        self._free, self._known = before, known
        return taken

    def _take(self, shape: PodShape, count: int) -> int:
        """Put as many as fit, at most `count`; how many."""
        room = self.room(shape)
        before = room.cumsum() - room
        taken = np.clip(count - before, 0, room)
        for row, amount in self._asked(shape.requests, shape.others):
            if row >= 0:
                self._free[row] -= amount * taken
        self._known = _Known()
        return int(taken.sum())

    def _shape_capacity(self, shape: PodShape) -> "_ShapeCapacity":
        found = self._known.capacities.get(shape)
        if found is None:
            room = self._counted(shape)
            found = self._known.capacities[shape] = _ShapeCapacity(room, int(room.sum()))
        return found

    def _counted(self, shape: PodShape) -> Floats:
        return self._enough(shape.requests, shape.others) * self._allowed(shape.where, shape.policy)

    def _enough(
        self, requests: ResourceVector, others: ExtendedResources, some: slice = _ALL
    ) -> Floats:
        """For how many pods each of some nodes has enough, whoever may go there."""
        asked = self._asked(requests, others)
        rooms = [self._room_for(row, amount, some) for row, amount in asked]
        least = rooms[0] if rooms else np.full(len(self._free[0, some]), _PLENTY)
        for room in rooms[1:]:
            np.minimum(least, room, out=least)
        return least

    def _room_for(self, row: int, amount: int, some: slice = _ALL) -> Floats:
        """For how many pods each of some nodes has enough of one resource."""
        if row < 0:
            return np.zeros(len(self._free[0, some]))
        room: Floats = np.floor(self._free[row, some] / amount)
        return room

    def _allowed(self, where: Where, policy: PolicyKey | None) -> Mask:
        return self._capacity.allowed(where, None if self._empty else policy)

    def _asked(
        self, requests: ResourceVector, others: ExtendedResources
    ) -> Iterator[tuple[int, int]]:
        """Row and amount of each resource that a pod asks for; row -1 for one that no node has."""
        yield from ((row, amount) for row, amount in enumerate(requests) if amount)
        yield from ((self._capacity.place.get(name, -1), n) for name, n in others if n)

    def _ordered(self, demand: Demand) -> list[tuple[PodShape, int]]:
        items = list(demand.items())
        return sorted(items, key=self._precedence) if len(items) > 1 else items

    def _precedence(self, item: tuple[PodShape, int]) -> tuple[object, ...]:
        shape, _ = item
        said = (shape.requests, shape.others, shape.where.asked, str(shape.policy))
        share = max(
            (
                n / self._capacity.most[row]
                for row, n in self._asked(shape.requests, shape.others)
                if row >= 0
            ),
            default=0.0,
        )
        return int(np.count_nonzero(self._allowed(shape.where, shape.policy))), -share, said

    def _shortage(self, shape: PodShape, fit: int, wanted: int) -> Shortage:
        found = self._known.shortages.get((shape, fit, wanted))
        if found is None:
            allowed = self._allowed(shape.where, shape.policy)
            nodes = int(np.count_nonzero(allowed))
            short = self._shortest(shape, allowed) if nodes else _NOWHERE
            found = self._known.shortages[shape, fit, wanted] = Shortage(fit, wanted, nodes, short)
        return found

    def _shortest(self, shape: PodShape, allowed: Mask) -> str:
        """The resource of which the nodes have room for the fewest pods, were it the only one."""
        names = [str(resource) for resource, n in zip(RESOURCES, shape.requests, strict=True) if n]
        names += [name for name, n in shape.others if n]
        rooms = [
            self._room_for(row, amount) @ allowed
            for row, amount in self._asked(shape.requests, shape.others)
        ]
        return min(zip(rooms, names, strict=True))[1] if names else _NOWHERE


def _largest(shapes: Collection[PodShape]) -> tuple[ResourceVector, ExtendedResources]:
    """Of each resource, the most that one of some pods asks for."""
    requests = tuple(map(max, zip(*(shape.requests for shape in shapes), strict=True)))
    # Of one name, the largest comes last, and stays.
    others = dict(sorted(each for shape in shapes for each in shape.others))
    return requests, tuple(others.items())


def _amounts(shape: PodShape) -> tuple[ExtendedResources, ResourceVector]:
    return shape.others, shape.requests
