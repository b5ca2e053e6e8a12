"""Serializes learned rewards to a ConfigMap, so that they survive restarts.

    {"nodes": ["n0", "n1"], "kinds": {"web": {"1": 0.81}}}

Values are keyed by the index of their node, since names would be most of the text. Kinds are ordered oldest first.
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from evaluator.features.scorers.learning.rewards import Rewards
from plimsoll.decode import UNREADABLE

KEY = "rewards.json"
"""Key in the ConfigMap's data."""
_DIGITS = 12


class _State(msgspec.Struct):
    nodes: list[str]
    kinds: dict[str, dict[int, float]]


class StateError(Exception):
    """The ConfigMap does not contain valid rewards; the message says why."""


def encode(rewards: Rewards) -> dict[str, str]:
    """Return the rewards as a ConfigMap's data."""
    nodes = sorted(rewards.nodes)
    number = {node: position for position, node in enumerate(nodes)}
    kinds = {
        kind: {number[n]: round(v, _DIGITS) for n, v in values.items() if n in number}
        for kind, values in rewards.kinds.items()
    }
    return {KEY: msgspec.json.encode(_State(nodes, kinds)).decode()}


def decode(data: Mapping[str, object], blank: Rewards) -> Rewards:
    """Return the rewards that `encode` wrote, with the settings of `blank`; `blank` itself without data. Raises StateError."""
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
