"""Maintains a plan of writes to nodes incrementally: only nodes that changed, or whose desired state changed, are compared.

The work is split into steps, so that the caller can yield to the event loop. The desired state of a node is a mapping:
its labels, for example. `Removal` is a write of the command `clean`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import LabelApply, LabelConflict
from evaluator.core.policy.label_sets import LabelAssignments

DesiredLabels = Mapping[str, Mapping[str, str]]
"""Node → label key → value."""

C = TypeVar("C", contravariant=True)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Compared(Protocol[A_co]):
    """The write that a node needs, if any, and the labels that others own."""

    @property
    def apply(self) -> A_co | None:
        """The write; None if the node is as desired."""
        ...

    @property
    def conflicts(self) -> tuple[LabelConflict, ...]:
        """Labels that are not set."""
        ...


class Comparison(NamedTuple, Generic[A]):
    """A comparison in which conflicts are impossible."""

    apply: A | None = None
    conflicts: tuple[LabelConflict, ...] = ()


Compare = Callable[[str, C, Mapping[str, str]], Compared[A]]
"""Compares a node's current state with the desired one."""


@dataclass(slots=True)
class Step:
    """The nodes compared in one step, and the conflicts that began or ended."""

    nodes: list[str]
    began: list[LabelConflict] = field(default_factory=list)
    ended: list[LabelConflict] = field(default_factory=list)


class NodePlan(Generic[C, A]):
    """The writes and conflicts by node.

    Call `changed()` for each node that changed, `set_desired()` with the desired state of all nodes, then `step()`
    while `pending`. Entries of pending nodes are out of date.
    """

    def __init__(self, compare: Compare[C, A]) -> None:
        self._compare = compare
        self.applies: dict[str, A] = {}
        self.conflicts: dict[str, tuple[LabelConflict, ...]] = {}
        self._desired: DesiredLabels = {}
        self._pending: dict[str, None] = {}

    @property
    def pending(self) -> bool:
        """Whether any node is left to compare."""
        return bool(self._pending)

    def changed(self, node: str) -> None:
        """Mark a node whose state changed, or which was added or deleted."""
        self._pending[node] = None

    def set_desired(self, desired: DesiredLabels) -> None:
        """Set the desired state of all nodes. The mapping must not change afterwards."""
        before, self._desired = self._desired, desired
        if before is not desired:
            self._pending |= dict.fromkeys(_differing(before, desired))

    def step(self, current: Callable[[str], C | None], limit: int) -> Step:
        """Compare up to `limit` nodes; `current` returns a node's current state (None: no such node)."""
        step = Step(list(islice(self._pending, limit)))
        for node in step.nodes:
            del self._pending[node]
            found = current(node)
            comparison: Compared[A] = Comparison()
            if found is not None:
                comparison = self._compare(node, found, self._desired.get(node, {}))
            self._take(node, comparison, step)
        return step

    def _take(self, node: str, comparison: Compared[A], step: Step) -> None:
        if comparison.apply is not None:
            self.applies[node] = comparison.apply
        else:
            self.applies.pop(node, None)
        before = self.conflicts.pop(node, ())
        if comparison.conflicts:
            self.conflicts[node] = comparison.conflicts
        if before != comparison.conflicts:
            step.began += [conflict for conflict in comparison.conflicts if conflict not in before]
            step.ended += [conflict for conflict in before if conflict not in comparison.conflicts]


def _differing(before: DesiredLabels, desired: DesiredLabels) -> Sequence[str]:
    """Return the nodes whose desired labels changed. Deleted nodes are reported by `changed()`."""
    if isinstance(before, LabelAssignments) and isinstance(desired, LabelAssignments):
        return desired.changed_since(before)
    if not before:
        return [*desired]
    removed = [node for node in before if node not in desired]
    return removed + [node for node, labels in desired.items() if before.get(node) != labels]


@dataclass(frozen=True, slots=True)
class NodeOperations:
    """A JSON patch (RFC 6902) of a node; with `subresource` /status, of its status."""

    node: str
    operations: Sequence[Mapping[str, Any]]
    subresource: str = ""


def conditions_removal(node: Node, types: Set[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the operations of a JSON patch that removes conditions of these types from the node as read.

    An apply without any condition would also remove fields of the status that have no owner.
    """
    meta = node.metadata
    yield {"op": "test", "path": "/metadata/uid", "value": meta.uid}
    yield {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}
    for index, condition in reversed([*enumerate(node.status.conditions)]):
        if condition.type in types:
            yield {"op": "remove", "path": f"/status/conditions/{index}"}


@dataclass(frozen=True, slots=True)
class Removal:
    """One write that removes something of ours from a node. It is valid for the node as it was read."""

    what: str
    """As shown to the user, such as `label team-a/busy`."""
    write: NodeOperations | LabelApply
