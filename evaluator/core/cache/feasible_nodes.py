"""Caches which nodes are feasible for which pods, per set of placement constraints."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evaluator.core.model.feasibility import constraint_key, is_feasible, pinned
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod

_STEP = 500
"""Nodes checked per step: well below a millisecond."""


class NodesForPod(set[str]):
    """The names of the feasible nodes of a pod. `version` increases with each change."""

    version = 0


@dataclass(slots=True)
class _Constraints:
    """A set of placement constraints. `pod` is one of its pods; `due` are the nodes to check (None: all, or all in `only`)."""

    pod: Pod
    only: frozenset[str] | None
    feasible: NodesForPod = field(default_factory=NodesForPod)
    due: set[str] | None = None


class FeasibleNodes:
    """Feasible nodes per set of constraints, over the live dict `nodes`; call `changed()` for each node that changes.

    Nodes are checked on demand and in steps; until those are done, `behind` is true.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.version = 0
        """Increases with every change of a result."""
        self._nodes = nodes
        self._by_constraints: dict[bytes, _Constraints] = {}
        self._behind: dict[bytes, None] = {}
        self._pods: Counter[bytes] = Counter()

    @property
    def behind(self) -> bool:
        """Whether nodes are left to check, so that results are incomplete."""
        return bool(self._behind)

    def for_pod(self, pod: Pod) -> NodesForPod:
        """Return the feasible nodes of a pod; the same live set for all pods with equal constraints."""
        key = constraint_key(pod.spec)
        if (entry := self._by_constraints.get(key)) is None:
            entry = self._by_constraints[key] = _Constraints(pod, pinned(pod))
            self._behind[key] = None
        return entry.feasible

    def changed(self, node: str) -> None:
        """A node's placement changed, or the node was added or deleted."""
        for key, entry in self._by_constraints.items():
            if entry.due is not None and (entry.only is None or node in entry.only):
                entry.due.add(node)
                self._behind[key] = None

    def change_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod changed (None: absent). Constraints that no pod has any more are dropped."""
        if after is not None:
            self._pods[constraint_key(after.spec)] += 1
        if before is not None:
            key = constraint_key(before.spec)
            self._pods[key] -= 1
            if self._pods[key] <= 0:
                del self._pods[key]
                self._by_constraints.pop(key, None)
                self._behind.pop(key, None)

    def catching_up(self) -> Iterator[None]:
        """Check the pending nodes in steps, so that the caller can yield to the event loop between them."""
        while self._behind:
            key = next(iter(self._behind))
            entry = self._by_constraints[key]
            if entry.due is None:
                entry.due = set(self._nodes if entry.only is None else entry.only)
            self._check(entry, entry.due)
            if not entry.due:
                del self._behind[key]
            yield

    def _check(self, entry: _Constraints, due: set[str]) -> None:
        for _ in range(min(_STEP, len(due))):
            name = due.pop()
            node = self._nodes.get(name)
            feasible = node is not None and is_feasible(node, entry.pod)
            if feasible is (name in entry.feasible):
                continue
            self.version += 1
            entry.feasible.version += 1
            if feasible:
                entry.feasible.add(name)
            else:
                entry.feasible.discard(name)
