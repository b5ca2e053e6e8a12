"""What was learned of kinds of pods, as the text of a ConfigMap, so that a restart forgets nothing.

    {"nodes": ["n0", "n1"], "kinds": {"web": {"1": 0.81}}}

A value is found by the number of its node, since the names would be most of the text. Kinds come oldest first.
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from evaluator.model.decode import UNREADABLE
from evaluator.scoring.rewards import Rewards

KEY = "rewards.json"
"""Under which it is in the ConfigMap's data."""
_DIGITS = 12


class _State(msgspec.Struct):
    nodes: list[str]
    kinds: dict[str, dict[int, float]]


class StateError(Exception):
    """What is there cannot be taken for what was learned; the text says why."""


def encode(rewards: Rewards) -> dict[str, str]:
    """A ConfigMap's data."""
    nodes = sorted(rewards.nodes)
    number = {node: place for place, node in enumerate(nodes)}
    kinds = {
        kind: {number[n]: round(v, _DIGITS) for n, v in values.items() if n in number}
        for kind, values in rewards.kinds.items()
    }
    return {KEY: msgspec.json.encode(_State(nodes, kinds)).decode()}


def decode(data: Mapping[str, object], blank: Rewards) -> Rewards:
    """What `encode` wrote, with the settings of `blank`; that itself where nothing was written. Raises StateError."""
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
        raise ValueError(f"{value} is no value from 0 to 1")
    return value
