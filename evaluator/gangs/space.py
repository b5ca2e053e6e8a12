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


class Packing:
    """Room that is taken step by step. `empty`: as if nothing ran on the nodes, and no policy kept pods off them."""

    def __init__(self, space: Space, *, empty: bool = False) -> None:
        self._space = space
        self._empty = empty
        self._free = (space.whole if empty else space.free).copy()
        self._capacities: dict[Shape, Floats] = {}

    def lacks(self, demand: Demand, *, need: int) -> Shortage | None:
        """What is short for so many of these pods; None if they fit."""
        lacking: Shape | None
        if len(demand) == 1:  # the rule, and nothing has to be tried
            [(shape, count)] = demand.items()
            fit, lacking = min(count, int(self._capacity(shape).sum())), shape
        else:
            before = self._free.copy()
            taken = {shape: self._take(shape, count) for shape, count in self._ordered(demand)}
            self._free = before
            self._capacities.clear()
            fit = sum(taken.values())
            lacking = next((s for s, count in demand.items() if taken[s] < count), None)
        if lacking is None or fit >= max(need, 1):
            return None
        return self._shortage(lacking, fit, sum(demand.values()))

    def take(self, demand: Demand) -> None:
        """Take the room for as many of these pods as fit."""
        for shape, count in self._ordered(demand):
            self._take(shape, count)

    def _take(self, shape: Shape, count: int) -> int:
        """Put as many as fit, at most `count`; how many."""
        room = self._capacity(shape)
        before = room.cumsum() - room
        taken = np.clip(count - before, 0, room)
        for row, amount in self._asked(shape):
            self._free[row] -= amount * taken
        self._capacities.clear()
        return int(taken.sum())

    def _capacity(self, shape: Shape) -> Floats:
        """How many pods of a shape each node has room for."""
        found = self._capacities.get(shape)
        if found is None:
            found = self._capacities[shape] = self._counted(shape)
        return found

    def _counted(self, shape: Shape) -> Floats:
        allowed = self._allowed(shape)
        least = np.full(len(self._space.nodes), _PLENTY)
        for row, amount in self._asked(shape):
            if row < 0:
                return np.zeros(len(self._space.nodes))
            np.fmin(least, np.nan_to_num(self._free[row] / amount), out=least)
        return np.where(allowed, np.floor(np.maximum(least, 0)), 0)

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
        most = np.nanmax(self._space.whole, axis=1, initial=1)
        share = max((n / most[row] for row, n in self._asked(shape) if row >= 0), default=0.0)
        return int(np.count_nonzero(self._allowed(shape))), -share, said

    def _shortage(self, shape: Shape, fit: int, wanted: int) -> Shortage:
        allowed = self._allowed(shape)
        nodes = int(np.count_nonzero(allowed))
        return Shortage(fit, wanted, nodes, self._shortest(shape, allowed) if nodes else _NOWHERE)

    def _shortest(self, shape: Shape, allowed: Mask) -> str:
        """The resource of which the nodes have room for the fewest pods, were it the only one."""
        names = (*RESOURCES, *(name for name, _ in shape.others))
        counts: dict[str, float] = {}
        for name, amount in zip(
            names, (*shape.requests, *(n for _, n in shape.others)), strict=True
        ):
            if amount and (row := self._space.place.get(name)) is not None:
                room = np.floor(np.nan_to_num(self._free[row][allowed]) / amount)
                counts[name] = float(np.maximum(room, 0).sum())
            elif amount:
                counts[name] = 0.0
        return str(min(counts, key=lambda name: counts[name])) if counts else _NOWHERE
