"""labels.plan(), kept up to date: of thousands of nodes, those are looked at again that changed or are wanted otherwise.

It goes in steps of so many nodes, between which others may have a turn. What is the same as before costs nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from evaluator.model import node_labels
from evaluator.model.node_labels import LabelApply, LabelComparison, LabelConflict, NodeLabels
from evaluator.policy.label_sets import LabelAssignments

Wanted = Mapping[str, Mapping[str, str]]
"""Node → label key → value."""

_NOTHING = LabelComparison(None, ())


@dataclass(slots=True)
class Step:
    """Which nodes were looked at, and which conflicts began or ended with that."""

    nodes: list[str]
    began: list[LabelConflict] = field(default_factory=list)
    ended: list[LabelConflict] = field(default_factory=list)


class LabelPlan:
    """Told of what `changed()` and of all that one may `want()`, it is the plan for that after enough `step()`s.

    `applies` and `conflicts` are by node, and true of every node but those that are still to be looked at.
    """

    def __init__(self) -> None:
        self.applies: dict[str, LabelApply] = {}
        self.conflicts: dict[str, tuple[LabelConflict, ...]] = {}
        self._wanted: Wanted = {}
        self._pending: dict[str, None] = {}

    @property
    def pending(self) -> bool:
        """Whether there is a node to look at."""
        return bool(self._pending)

    def changed(self, node: str) -> None:
        """The labels of a node, or whose they are, are others; or it came, or went."""
        self._pending[node] = None

    def want(self, wanted: Wanted) -> None:
        """These labels are wanted, and no others. The mapping must not change afterwards."""
        before, self._wanted = self._wanted, wanted
        if before is not wanted:
            self._pending |= dict.fromkeys(_differing(before, wanted))

    def step(self, seen: Callable[[str], NodeLabels | None], limit: int) -> Step:
        """Look at so many nodes at most; `seen` knows a node's labels (None: there is no such node)."""
        step = Step(list(islice(self._pending, limit)))
        for node in step.nodes:
            del self._pending[node]
            found = seen(node)
            look = node_labels.look(node, found, self._wanted.get(node, {})) if found else _NOTHING
            self._take(node, look, step)
        return step

    def _take(self, node: str, look: LabelComparison, step: Step) -> None:
        if look.apply:
            self.applies[node] = look.apply
        else:
            self.applies.pop(node, None)
        before = self.conflicts.pop(node, ())
        if look.conflicts:
            self.conflicts[node] = look.conflicts
        if before != look.conflicts:
            step.began += [conflict for conflict in look.conflicts if conflict not in before]
            step.ended += [conflict for conflict in before if conflict not in look.conflicts]


def _differing(before: Wanted, wanted: Wanted) -> Sequence[str]:
    """The nodes on which other labels are wanted than before. One that went is told of as `changed()`."""
    if isinstance(before, LabelAssignments) and isinstance(wanted, LabelAssignments):
        return wanted.changed_since(before)
    if not before:
        return [*wanted]
    given_up = [node for node in before if node not in wanted]
    return given_up + [node for node, asked in wanted.items() if before.get(node) != asked]
