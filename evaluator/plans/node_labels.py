"""Maintains the label plan incrementally: only nodes that changed, or whose desired labels changed, are compared.

The work is split into steps, so that the caller can yield to the event loop.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from evaluator.model import node_labels
from evaluator.model.node_labels import LabelApply, LabelComparison, LabelConflict, NodeLabels
from evaluator.policy.label_sets import LabelAssignments

DesiredLabels = Mapping[str, Mapping[str, str]]
"""Node → label key → value."""

_NOTHING = LabelComparison(None, ())


@dataclass(slots=True)
class Step:
    """The nodes compared in one step, and the conflicts that began or ended."""

    nodes: list[str]
    began: list[LabelConflict] = field(default_factory=list)
    ended: list[LabelConflict] = field(default_factory=list)


class LabelPlan:
    """The applies and conflicts by node.

    Call `changed()` for each node that changed, `set_desired()` with all desired labels, then `step()` while
    `pending`. Entries of pending nodes are out of date.
    """

    def __init__(self) -> None:
        self.applies: dict[str, LabelApply] = {}
        self.conflicts: dict[str, tuple[LabelConflict, ...]] = {}
        self._desired: DesiredLabels = {}
        self._pending: dict[str, None] = {}

    @property
    def pending(self) -> bool:
        """Whether any node is left to compare."""
        return bool(self._pending)

    def changed(self, node: str) -> None:
        """Mark a node whose labels or label owners changed, or which was added or deleted."""
        self._pending[node] = None

    def set_desired(self, desired: DesiredLabels) -> None:
        """Set the desired labels of all nodes. The mapping must not change afterwards."""
        before, self._desired = self._desired, desired
        if before is not desired:
            self._pending |= dict.fromkeys(_differing(before, desired))

    def step(self, current: Callable[[str], NodeLabels | None], limit: int) -> Step:
        """Compare up to `limit` nodes; `current` returns a node's current labels (None: no such node)."""
        step = Step(list(islice(self._pending, limit)))
        for node in step.nodes:
            del self._pending[node]
            found = current(node)
            comparison = (
                node_labels.compare(node, found, self._desired.get(node, {})) if found else _NOTHING
            )
            self._take(node, comparison, step)
        return step

    def _take(self, node: str, comparison: LabelComparison, step: Step) -> None:
        if comparison.apply:
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
