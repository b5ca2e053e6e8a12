"""Maintains a plan of writes to nodes incrementally: only nodes that changed, or whose desired state changed, are compared.

The work is split into steps, so that the caller can yield to the event loop. The desired state of a node is a mapping:
its labels, for example. `Removal` is a write of the command `clean`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from evaluator.core.model.node_labels import LabelApply
from evaluator.core.policy.label_sets import LabelAssignments

Desired = Mapping[str, Mapping[str, str]]
"""Node → what it should have, such as label key → value; a node that is left out should have nothing."""
KEPT: Mapping[str, str] = MappingProxyType({})
"""What a node should have of which nothing is known: it keeps what it has. Compared by identity."""

C = TypeVar("C")
W = TypeVar("W")


def _unisolated(_node: str, find: Callable[[], W | None]) -> W | None:
    """Return what `find` returns."""
    return find()


class NodePlan(Generic[C, W]):
    """The writes by node.

    Call `changed()` for each node that changed, `set_desired()` with the desired state of all nodes, then `step()`
    while `pending`. Entries of pending nodes are out of date.
    """

    def __init__(
        self,
        compare: Callable[[str, C, Mapping[str, str]], W | None],
        isolated: Callable[[str, Callable[[], W | None]], W | None] = _unisolated,
    ) -> None:
        """`compare` returns the write that a node needs, by its name, current and desired state; None if it is as desired.

        `isolated` calls what finds the write of a node, and returns None where that raises.
        """
        self._compare = compare
        self._isolated = isolated
        self.writes: dict[str, W] = {}
        self._desired: Desired = {}
        self._pending: dict[str, None] = {}

    @property
    def pending(self) -> bool:
        """Whether any node is left to compare."""
        return bool(self._pending)

    def changed(self, node: str) -> None:
        """Mark a node whose state changed, or which was added or deleted."""
        self._pending[node] = None

    def set_desired(self, desired: Desired) -> None:
        """Set the desired state of all nodes. Mark those whose state in the mapping changes afterwards by `changed()`."""
        if desired is not self._desired:
            self._pending |= dict.fromkeys(_differing(self._desired, desired))
            self._desired = desired

    def step(self, current: Callable[[str], C | None], limit: int) -> list[str]:
        """Compare up to `limit` nodes and return them; `current` returns a node's current state (None: no such node)."""
        nodes = list(islice(self._pending, limit))
        for node in nodes:
            del self._pending[node]
            self.writes.pop(node, None)
            write = self._isolated(node, partial(self._write, node, current(node)))
            if write is not None:
                self.writes[node] = write
        return nodes

    def _write(self, node: str, found: C | None) -> W | None:
        desired = self._desired.get(node, {})
        return None if found is None or desired is KEPT else self._compare(node, found, desired)


def _differing(before: Desired, desired: Desired) -> Sequence[str]:
    """Return the nodes whose desired state changed. Deleted nodes are reported by `changed()`."""
    if isinstance(before, LabelAssignments) and isinstance(desired, LabelAssignments):
        return desired.changed_since(before)
    if not before:
        return [*desired]
    removed = [node for node in before if node not in desired]
    return removed + [node for node, wanted in desired.items() if before.get(node) != wanted]


@dataclass(frozen=True, slots=True)
class NodeOperations:
    """A JSON patch (RFC 6902) of a node; with `subresource` /status, of its status."""

    node: str
    operations: Sequence[Mapping[str, Any]]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Removal:
    """One write that removes something of ours from a node. It is valid for the node as it was read."""

    what: str
    """As shown to the user, such as `label team-a/busy`."""
    write: NodeOperations | LabelApply
