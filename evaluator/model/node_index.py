"""The nodes of the cluster as positions in arrays, and masks over them."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

Array = TypeVar("Array", bound=npt.NDArray[Any])


class NodeIndex(tuple[str, ...]):
    """Names in a fixed order, and what is looked up in such a list again and again, made once.

    `decide()` keeps this very object while the cluster has the same nodes.
    """

    @cached_property
    def position(self) -> dict[str, int]:
        """Name → position."""
        return {name: place for place, name in enumerate(self)}

    @cached_property
    def none(self) -> Mask:
        """The empty mask; shared and read-only."""
        return fixed(np.zeros(len(self), dtype=bool))

    @cached_property
    def all(self) -> Mask:
        """The mask of all nodes; shared and read-only."""
        return fixed(np.ones(len(self), dtype=bool))

    def no_rules(self, columns: int) -> Mask:
        """A table of nodes and so many columns that is set nowhere; not to be written to, as it is everybody's."""
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

    def at(self, mask: Mask) -> list[str]:
        """Return the names where a mask is set."""
        names: list[str] = self._array[mask].tolist()
        return names

    def find(self, names: Sequence[str]) -> Positions:
        """Return the positions of some names, in order; -1 for unknown names."""
        found = map(self.position.get, names, repeat(-1))
        return np.fromiter(found, np.intp, len(names))


class NodeMask:
    """Some of the nodes. Who they are by name is worked out when somebody asks, and once."""

    def __init__(self, nodes: NodeIndex, mask: Mask) -> None:
        self.nodes = nodes
        self.mask = mask

    @cached_property
    def count(self) -> int:
        """How many."""
        return int(np.count_nonzero(self.mask))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """In the order of the nodes."""
        return tuple(self.nodes.at(self.mask))

    @cached_property
    def members(self) -> frozenset[str]:
        """The names, to look one up."""
        return frozenset(self.names)

    def reuse(self, before: "NodeMask | None") -> "NodeMask":
        """The object of before if it is the same set, so that who compares sees at a glance that nothing changed."""
        same = before is not None and before.nodes is self.nodes and alike(before.mask, self.mask)
        return before if before is not None and same else self


class Reindex:
    """Where today's nodes were among those of another moment, and what was known of each there."""

    def __init__(self, before: NodeIndex, nodes: NodeIndex) -> None:
        self._before, self._nodes = before, nodes

    @cached_property
    def _places(self) -> Positions | None:
        """None where all nodes are where they were; -1 for one that was not there."""
        if self._before is self._nodes:
            return None
        return self._before.find(self._nodes)

    @property
    def nothing(self) -> bool:
        """Whether all nodes are where they were."""
        return self._places is None

    def mask(self, mask: Mask) -> Mask:
        """A mask over the nodes of then, over today's: not set for who was not there."""
        places = self._places
        if places is None:
            return mask
        if not len(self._before):
            return self._nodes.none
        return (places >= 0) & mask[places]

    def values(self, values: Floats) -> Floats:
        """Numbers of the nodes of then, over today's: NaN for who was not there."""
        places = self._places
        if places is None:
            return values
        if not len(self._before):
            return np.full(len(self._nodes), np.nan)
        return np.where(places >= 0, values[places], np.nan)


def alike(one: Mask, other: Mask) -> bool:
    """Whether two masks, or tables of them, are the same."""
    return one is other or (one.shape == other.shape and one.T.tobytes() == other.T.tobytes())


def union(masks: Iterable[Mask], nodes: NodeIndex) -> Mask:
    """Where any of some masks is set. With one mask it is that one; with none, `nodes.none`."""
    found: Mask | None = None
    for mask in masks:
        found = mask if found is None else found | mask
    return nodes.none if found is None else found


def fixed(array: Array) -> Array:
    """The array itself, which nobody can write to any longer: many share it."""
    array.setflags(write=False)
    return array
