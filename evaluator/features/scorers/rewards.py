"""Learned rewards: for each kind of pod and node a value from 0 to 1, an exponential average of outcomes.

Values start at 1, and an outcome (1: success, 0: failure) moves the value by a tenth of the difference, as in kubeRL.
A node that joins later starts, for each kind, at the mean of the existing nodes: neither last, where no pod would be
scheduled to correct it, nor first.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import UNREADABLE
from evaluator.core.model.node_index import NodeIndex

START = 1.0
"""Initial value of a kind on existing nodes."""
MOST_BYTES = 950_000
"""Bytes of serialized rewards: Kubernetes objects are limited to 1 MiB."""
_RECORD, _AROUND = 24, 16
"""Serialized bytes of one value with its node's index, and the overhead of a kind."""


_Kind = tuple[str, Mapping[str, float]]
"""A kind and its values."""
KEY = "rewards.json"
"""Key in the ConfigMap's data."""
_DIGITS = 12


class PodOutcome(NamedTuple):
    """The outcome of a pod of a kind on a node: 1 for success, 0 for failure."""

    kind: str
    node: str
    reward: int


@dataclass(frozen=True)
class Rewards:
    """The learned values; immutable. `learned` and `among` return a new object that shares unchanged parts."""

    weight: float = 0.1
    """Weight of one outcome, 0 to 1."""
    nodes: frozenset[str] = frozenset()
    """The known nodes."""
    kinds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By kind, oldest outcome first; then by node, only values other than START."""
    most_bytes: int = MOST_BYTES
    """When serialized; the oldest kinds are dropped."""
    dropped: int = 0
    """Kinds dropped because of the size limit."""

    def values(self, kind: str, nodes: NodeIndex) -> Floats:
        """Return the values of one kind on the given nodes."""
        by_node = np.full(len(nodes), START)
        for node, value in self.kinds.get(kind, {}).items():
            if (position := nodes.position.get(node)) is not None:
                by_node[position] = value
        return by_node

    def observed(self, kind: str, node: str, reward: int) -> "Rewards":
        """Return the rewards after one outcome."""
        return self.learned([PodOutcome(kind, node, reward)])

    def learned(self, outcomes: Iterable[PodOutcome]) -> "Rewards":
        """Return the rewards after some outcomes, in order. The oldest kinds are dropped if the size limit is exceeded."""
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
        """Return the rewards for the current nodes: new nodes get an initial value, deleted ones are dropped."""
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
    """Return the rewards without the oldest kinds, within the size limit."""
    newest_first = list(rewards.kinds.items())[::-1]
    remaining = rewards.most_bytes - sum(len(node) + 3 for node in rewards.nodes)
    kept = list(_within(remaining, newest_first))
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


def _within(remaining: int, kinds: Iterable[_Kind]) -> Iterator[_Kind]:
    """Yield the first kinds that fit into `remaining` bytes."""
    for kind, values in kinds:
        remaining -= len(kind.encode()) + _AROUND + _RECORD * len(values)
        if remaining < 0:
            return
        yield kind, values


class _State(msgspec.Struct):
    nodes: list[str]
    kinds: dict[str, dict[int, float]]


class StateError(Exception):
    """The ConfigMap does not contain valid rewards; the message says why."""


def encode_rewards(rewards: Rewards) -> dict[str, str]:
    """Return the rewards as a ConfigMap's data."""
    nodes = sorted(rewards.nodes)
    number = {node: position for position, node in enumerate(nodes)}
    kinds = {
        kind: {number[n]: round(v, _DIGITS) for n, v in values.items() if n in number}
        for kind, values in rewards.kinds.items()
    }
    return {KEY: msgspec.json.encode(_State(nodes, kinds)).decode()}


def decode_rewards(data: Mapping[str, object], blank: Rewards) -> Rewards:
    """Return the rewards that `encode_rewards` wrote, with the settings of `blank`; `blank` itself without data. Raises StateError."""
    if (text := data.get(KEY)) is None:
        return blank
    try:
        state = msgspec.json.decode(str(text), type=_State)
        kinds = {
            kind: {_node(state, number): _value(value) for number, value in values.items()}
            for kind, values in state.kinds.items()
        }
    except (*UNREADABLE, ValueError) as error:
        raise StateError(f"{KEY}: {error}") from error
    return replace(blank, nodes=frozenset(state.nodes), kinds=kinds)


def _node(state: _State, number: int) -> str:
    if not 0 <= number < len(state.nodes):
        raise ValueError(f"there is no node {number}")
    return state.nodes[number]


def _value(value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{value} is not a value from 0 to 1")
    return value
