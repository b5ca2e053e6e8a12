"""What was learned of where kinds of pods do well: for each kind and node a value from 0 to 1, an average that forgets.

Everything starts at 1, and an outcome (1: did well, 0: did not) moves the value by a tenth of the way to it: this is
kubeRL's state. A node that joins later starts, for each kind, at the mean of the nodes that were there: neither the last
choice, which nothing would ever bring it out of, nor the first.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from evaluator.model.node_index import Floats, NodeIndex

START = 1.0
"""The value that a kind has on the nodes that were there before it."""
_ROOM = 950_000
"""Bytes for all of it, as text: an object of Kubernetes has room for a mebibyte."""
_RECORD, _AROUND = 24, 16
"""Bytes, as text, of one value with the number of its node, and around each kind."""


_Kind = tuple[str, Mapping[str, float]]
"""A kind with its values."""


class PodOutcome(NamedTuple):
    """How a pod of some kind did on a node: 1 for well, 0 for not."""

    kind: str
    node: str
    reward: int


@dataclass(frozen=True)
class Rewards:
    """The values; never changes. `learned` and `among` give another one, and share with it what is the same."""

    weight: float = 0.1
    """Of one outcome, against all before it: 0 to 1."""
    nodes: frozenset[str] = frozenset()
    """The nodes that were there already."""
    kinds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By kind, the one whose last outcome is oldest first; then by node, where the value is another than START."""
    dropped: int = 0
    """Kinds that there was no room for any more."""

    def values(self, kind: str, nodes: NodeIndex) -> Floats:
        """Of one kind on each of some nodes."""
        found = np.full(len(nodes), START)
        for node, value in self.kinds.get(kind, {}).items():
            if (place := nodes.position.get(node)) is not None:
                found[place] = value
        return found

    def observed(self, kind: str, node: str, reward: int) -> "Rewards":
        """After one outcome."""
        return self.learned([PodOutcome(kind, node, reward)])

    def learned(self, outcomes: Iterable[PodOutcome]) -> "Rewards":
        """After some outcomes, in their order. The oldest kinds are dropped if there is no room for all."""
        kinds = dict(self.kinds)
        own: dict[str, dict[str, float]] = {}
        for kind, node, reward in outcomes:
            before = kinds.pop(kind, {})  # to be put in again as the newest
            values = own.setdefault(kind, dict(before))
            value = (1.0 - self.weight) * values.get(node, START) + self.weight * reward
            _note(values, node, value)
            if values:  # all at START is the same as an unknown kind
                kinds[kind] = values
        if not own:
            return self
        return _fitting(replace(self, kinds=kinds))

    def among(self, nodes: Set[str]) -> "Rewards":
        """For the nodes that there are now: those that are new start, those that went are forgotten."""
        if nodes == self.nodes:
            return self
        stayed, joined = self.nodes & nodes, nodes - self.nodes
        kinds = {
            kind: after
            for kind, values in self.kinds.items()
            if (after := _moved(values, stayed, joined))
        }
        return _fitting(replace(self, nodes=frozenset(nodes), kinds=kinds))


def _fitting(rewards: Rewards) -> Rewards:
    """Without the oldest kinds, as many as there is no room for."""
    newest_first = list(rewards.kinds.items())[::-1]
    room = _ROOM - sum(len(node) + 3 for node in rewards.nodes)
    kept = list(_within(room, newest_first))
    if len(kept) == len(newest_first):
        return rewards
    dropped = rewards.dropped + len(newest_first) - len(kept)
    return replace(rewards, kinds=dict(kept[::-1]), dropped=dropped)


def _moved(values: Mapping[str, float], stayed: Set[str], joined: Set[str]) -> dict[str, float]:
    after = {node: value for node, value in values.items() if node in stayed}
    if not stayed:
        first = START
    else:
        first = START + (sum(after.values()) - START * len(after)) / len(stayed)
    for node in joined:
        _note(after, node, first)
    return after


def _note(values: dict[str, float], node: str, value: float) -> None:
    if value == START:
        values.pop(node, None)
    else:
        values[node] = value


def _within(room: int, kinds: Iterable[_Kind]) -> Iterator[_Kind]:
    """The first of some kinds, as far as there is room."""
    for kind, values in kinds:
        room -= len(kind.encode()) + _AROUND + _RECORD * len(values)
        if room < 0:
            return
        yield kind, values
