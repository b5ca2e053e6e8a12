"""The room that nodes have, and whether pods fit in it together. No I/O.

Pods are put one shape after the other, the pickiest and then the largest first, each shape on the nodes in their order as
far as they go. That finds a place for pods of one shape whenever there is one. For pods of several shapes it is a
heuristic, as kube-scheduler's own way is: what fits only by a clever choice of nodes does not count as fitting, since
nobody would make that choice.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evaluator.amounts import RESOURCES
from evaluator.gangs.membership import Where
from evaluator.gangs.shapes import Shape
from evaluator.nodes import Floats, Mask, Nodes
from evaluator.policy import PolicyKey

Demand = Mapping[Shape, int]
"""How many pods of each shape."""

_PLENTY = 2.0**31
"""Pods on a node, where nothing that they ask for bounds them."""
_NOWHERE = "nodes"
"""What is short where no node may take a pod at all."""


class Shortage(NamedTuple):
    """Why pods do not fit: there is room for `fit` of `wanted`, at one time."""

    fit: int
    wanted: int
    nodes: int
    """Those that may take a pod of the shape that does not fit, were there room."""
    short: str
    """The resource that there is least of, for that shape; `nodes` where none may take it."""


@dataclass(frozen=True)
class Space:
    """`free` and `whole`: what is free of each node, and what it has in all; resources by nodes, `math.nan` where not known.

    `resources` begins with RESOURCES, and names after them what else nodes have. `allowed` says which nodes may take pods
    of a policy that ask this of a node; without a policy, which of them could.
    """

    nodes: Nodes
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


class _Capacity(NamedTuple):
    """For how many pods each node has room, and all of them."""

    room: Floats
    total: int


class Packing:
    """Room that is taken step by step. `empty`: as if nothing ran on the nodes, and no policy kept pods off them."""

    def __init__(self, space: Space, *, empty: bool = False) -> None:
        self._space = space
        self._empty = empty
        # Of a node of which it is not known what it has, as of one that is full, nothing is to be had.
        self._free = np.maximum(np.nan_to_num(space.whole if empty else space.free), 0.0)
        self._known: dict[Shape, _Capacity] = {}
        self._shortages: dict[tuple[Shape, int, int], Shortage] = {}

    def lacks(self, demand: Demand, *, need: int) -> Shortage | None:
        """What is short for so many of these pods; None if they fit."""
        lacking: Shape | None
        if len(demand) == 1:  # the rule, and nothing has to be tried
            [(shape, count)] = demand.items()
            fit, lacking = min(count, self._capacity(shape).total), shape
        else:
            before = self._free.copy()
            taken = {shape: self._take(shape, count) for shape, count in self._ordered(demand)}
            self._free = before
            self._forget()
            fit = sum(taken.values())
            lacking = next((s for s, count in demand.items() if taken[s] < count), None)
        if lacking is None or fit >= max(need, 1):
            return None
        return self._shortage(lacking, fit, sum(demand.values()))

    def take(self, demand: Demand) -> None:
        """Take the room for as many of these pods as fit."""
        for shape, count in self._ordered(demand):
            self._take(shape, count)

    def order(self, demand: Demand) -> list[Shape]:
        """The shapes as they are put: the pickiest and the largest first."""
        return [shape for shape, _ in self._ordered(demand)]

    def room(self, shape: Shape) -> Floats:
        """For how many pods of a shape each node has room; not to be written to."""
        return self._capacity(shape).room

    def _take(self, shape: Shape, count: int) -> int:
        """Put as many as fit, at most `count`; how many."""
        room = self.room(shape)
        before = room.cumsum() - room
        taken = np.clip(count - before, 0, room)
        for row, amount in self._asked(shape):
            if row >= 0:
                self._free[row] -= amount * taken
        self._forget()
        return int(taken.sum())

    def _forget(self) -> None:
        self._known.clear()
        self._shortages.clear()

    def _capacity(self, shape: Shape) -> "_Capacity":
        found = self._known.get(shape)
        if found is None:
            room = self._counted(shape)
            found = self._known[shape] = _Capacity(room, int(room.sum()))
        return found

    def _counted(self, shape: Shape) -> Floats:
        rooms = [self._room_for(row, amount) for row, amount in self._asked(shape)]
        least = rooms[0] if rooms else np.full(len(self._space.nodes), _PLENTY)
        for room in rooms[1:]:
            np.minimum(least, room, out=least)
        return least * self._allowed(shape)

    def _room_for(self, row: int, amount: int) -> Floats:
        """For how many pods each node has enough of one resource."""
        if row < 0:
            return np.zeros(len(self._space.nodes))
        room: Floats = np.floor(self._free[row] / amount)
        return room

    def _allowed(self, shape: Shape) -> Mask:
        return self._space.allowed(shape.where, None if self._empty else shape.policy)

    def _asked(self, shape: Shape) -> Iterator[tuple[int, int]]:
        """Row and amount of each resource that a pod asks for; row -1 for one that no node has."""
        yield from ((row, amount) for row, amount in enumerate(shape.requests) if amount)
        yield from ((self._space.place.get(name, -1), n) for name, n in shape.others if n)

    def _ordered(self, demand: Demand) -> list[tuple[Shape, int]]:
        items = list(demand.items())
        return sorted(items, key=self._precedence) if len(items) > 1 else items

    def _precedence(self, item: tuple[Shape, int]) -> tuple[object, ...]:
        shape, _ = item
        said = (shape.requests, shape.others, shape.where.asked, str(shape.policy))
        share = max(
            (n / self._space.most[row] for row, n in self._asked(shape) if row >= 0), default=0.0
        )
        return int(np.count_nonzero(self._allowed(shape))), -share, said

    def _shortage(self, shape: Shape, fit: int, wanted: int) -> Shortage:
        found = self._shortages.get((shape, fit, wanted))
        if found is None:
            allowed = self._allowed(shape)
            nodes = int(np.count_nonzero(allowed))
            short = self._shortest(shape, allowed) if nodes else _NOWHERE
            found = self._shortages[shape, fit, wanted] = Shortage(fit, wanted, nodes, short)
        return found

    def _shortest(self, shape: Shape, allowed: Mask) -> str:
        """The resource of which the nodes have room for the fewest pods, were it the only one."""
        names = [str(resource) for resource, n in zip(RESOURCES, shape.requests, strict=True) if n]
        names += [name for name, n in shape.others if n]
        rooms = [self._room_for(row, amount) @ allowed for row, amount in self._asked(shape)]
        return min(zip(rooms, names, strict=True))[1] if names else _NOWHERE
