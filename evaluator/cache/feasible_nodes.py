"""Caches which nodes are feasible for which pods, per set of placement constraints."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evaluator.model.feasibility import constraint_key, pinned, would_take
from evaluator.model.objects import Node, Pod

_STEP = 500
"""So many nodes are looked at in well below a millisecond."""


class NodesForPod(set[str]):
    """The names of nodes that would take a pod. `version` goes up when one comes, or goes."""

    version = 0


@dataclass(slots=True)
class _Kind:
    """Pods that ask the same of a node. `pod` is one of them; `due` are the nodes to look at (None: all that they ask for)."""

    pod: Pod
    only: frozenset[str] | None
    takers: NodesForPod = field(default_factory=NodesForPod)
    due: set[str] | None = None


class FeasibleNodes:
    """`nodes` is the living table of all nodes; each time that one of them changes, `changed()` has to be called.

    Nothing is looked at before somebody asks, and then in steps: until that is done, this is `behind`.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.version = 0
        """Goes up when an answer is another than before."""
        self._nodes = nodes
        self._kinds: dict[bytes, _Kind] = {}
        self._behind: dict[bytes, None] = {}
        self._pods: Counter[bytes] = Counter()

    @property
    def behind(self) -> bool:
        """Whether there are nodes to look at before the answers are whole."""
        return bool(self._behind)

    def takers(self, pod: Pod) -> NodesForPod:
        """The nodes that would take a pod; the same living set for all pods that ask the same."""
        key = constraint_key(pod.spec)
        if (kind := self._kinds.get(key)) is None:
            kind = self._kinds[key] = _Kind(pod, pinned(pod))
            self._behind[key] = None
        return kind.takers

    def changed(self, node: str) -> None:
        """What decides which pods a node takes is other than before; or it came, or went."""
        for key, kind in self._kinds.items():
            if kind.due is not None and (kind.only is None or node in kind.only):
                kind.due.add(node)
                self._behind[key] = None

    def change_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod is another than before (None: there is none). What no pod asks for any more is forgotten."""
        if after is not None:
            self._pods[constraint_key(after.spec)] += 1
        if before is not None:
            key = constraint_key(before.spec)
            self._pods[key] -= 1
            if self._pods[key] <= 0:
                del self._pods[key]
                self._kinds.pop(key, None)
                self._behind.pop(key, None)

    def catching_up(self) -> Iterator[None]:
        """Look at what is to be looked at, in steps between which others may have a turn."""
        while self._behind:
            key = next(iter(self._behind))
            kind = self._kinds[key]
            if kind.due is None:
                kind.due = set(self._nodes if kind.only is None else kind.only)
            self._look(kind, kind.due)
            if not kind.due:
                del self._behind[key]
            yield

    def _look(self, kind: _Kind, due: set[str]) -> None:
        for _ in range(min(_STEP, len(due))):
            name = due.pop()
            node = self._nodes.get(name)
            takes = node is not None and would_take(node, kind.pod)
            if takes is (name in kind.takers):
                continue
            self.version += 1
            kind.takers.version += 1
            if takes:
                kind.takers.add(name)
            else:
                kind.takers.discard(name)
