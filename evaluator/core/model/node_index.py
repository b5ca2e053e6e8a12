"""The nodes of the cluster as positions in arrays, and masks over them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Floats

Positions = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

Array = TypeVar("Array", bound=npt.NDArray[Any])


class NodeIndex(tuple[str, ...]):
    """Node names in a fixed order, with lookups computed once.

    `decide()` keeps the same object while the nodes are the same.
    """

    @cached_property
    def position(self) -> dict[str, int]:
        """Name → position."""
        return {name: position for position, name in enumerate(self)}

    @cached_property
    def none(self) -> Mask:
        """The empty mask; shared and read-only."""
        return fixed(np.zeros(len(self), dtype=bool))

    @cached_property
    def all(self) -> Mask:
        """The mask of all nodes; shared and read-only."""
        return fixed(np.ones(len(self), dtype=bool))

    def no_rules(self, columns: int) -> Mask:
        """Return an all-false table of shape (nodes, columns); shared and read-only."""
        table = self._tables.get(columns)
        if table is None:
            table = np.zeros((columns, len(self)), dtype=bool).T
            self._tables[columns] = fixed(table)
        return table

    @cached_property
    def _tables(self) -> dict[int, Mask]:
        return {}

    @cached_property
    def _array(self) -> npt.NDArray[np.object_]:
        return np.array(self, dtype=object)

    @cached_property
    def json(self) -> npt.NDArray[np.object_]:
        """Each name as JSON, as a string; for answers that name thousands of nodes."""
        parts = msgspec.json.encode(list(self)).decode()[1:-1].split(",")
        if len(parts) != len(self):  # a name with a comma, or no name
            parts = [msgspec.json.encode(name).decode() for name in self]
        return np.array(parts, dtype=object)

    def names_at(self, mask: Mask | Positions) -> list[str]:
        """Return the names where a mask is set, or at some positions."""
        names: list[str] = self._array[mask].tolist()
        return names

    def find(self, names: Sequence[str]) -> Positions:
        """Return the positions of some names, in order; -1 for unknown names."""
        found = map(self.position.get, names, repeat(-1))
        return np.fromiter(found, np.intp, len(names))


class NodeScores(NamedTuple):
    """Scores of some nodes as arrays of shape (scored nodes,), in the order of a request; known nodes only.

    Thousands of nodes are scored for each pod: a Python object for each would take most of the time of an answer.
    """

    nodes: NodeIndex
    positions: Positions
    scores: Positions

    def pairs(self) -> Iterator[tuple[str, int]]:
        """Return names with scores."""
        return zip(self.nodes.names_at(self.positions), self.scores.tolist(), strict=True)

    def highest(self, most: int) -> "NodeScores":
        """Return at most so many, the highest first; among equal ones those that come first in the order of the nodes."""
        rows = np.arange(len(self.scores))
        if len(rows) > most:
            least = np.partition(self.scores, -most)[-most]
            above, equal = (self.scores > least).nonzero()[0], (self.scores == least).nonzero()[0]
            free = most - len(above)
            if len(equal) > free:
                equal = equal[np.argpartition(self.positions[equal], free)[:free]]
            rows = np.concatenate((above, equal))
        rows = rows[np.lexsort((self.positions[rows], -self.scores[rows]))]
        return NodeScores(self.nodes, self.positions[rows], self.scores[rows])


class NodeMask:
    """A set of nodes as a mask; names are computed on first use."""

    def __init__(self, nodes: NodeIndex, mask: Mask) -> None:
        self.nodes = nodes
        self.mask = mask

    @cached_property
    def count(self) -> int:
        """The number of nodes."""
        return int(np.count_nonzero(self.mask))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the nodes."""
        return tuple(self.nodes.names_at(self.mask))

    @cached_property
    def members(self) -> frozenset[str]:
        """The names as a set."""
        return frozenset(self.names)

    def reuse(self, before: "NodeMask | None") -> "NodeMask":
        """Return `before` if it is the same set, so that comparing identities shows that nothing changed."""
        same = before is not None and before.nodes is self.nodes and alike(before.mask, self.mask)
        return before if before is not None and same else self


class Reindex:
    """Maps arrays over earlier nodes to arrays over the current ones."""

    def __init__(self, before: NodeIndex, nodes: NodeIndex) -> None:
        self._before, self._nodes = before, nodes

    @cached_property
    def _before_positions(self) -> Positions | None:
        """Earlier position of each node, -1 for new ones; None if no position changed."""
        if self._before is self._nodes:
            return None
        return self._before.find(self._nodes)

    @property
    def is_identity(self) -> bool:
        """Whether no position changed."""
        return self._before_positions is None

    def mask(self, mask: Mask) -> Mask:
        """Return a mask over the current nodes; false for new ones."""
        positions = self._before_positions
        if positions is None:
            return mask
        if not len(self._before):
            return self._nodes.none
        return (positions >= 0) & mask[positions]

    def values(self, values: Floats) -> Floats:
        """Return values over the current nodes; NaN for new ones."""
        positions = self._before_positions
        if positions is None:
            return values
        if not len(self._before):
            return np.full(len(self._nodes), np.nan)
        return np.where(positions >= 0, values[positions], np.nan)


def alike(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Return whether two arrays of one type are equal, such as masks or tables of masks."""
    return one is other or (one.shape == other.shape and one.T.tobytes() == other.T.tobytes())


def union(masks: Iterable[Mask], nodes: NodeIndex) -> Mask:
    """Return the union of the masks; `nodes.none` if there are none."""
    found: Mask | None = None
    for mask in masks:
        found = mask if found is None else found | mask
    return nodes.none if found is None else found


def fixed(array: Array) -> Array:
    """Return the array itself, made read-only because it is shared."""
    array.setflags(write=False)
    return array
