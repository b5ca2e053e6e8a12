"""Data of rules on peers: the groups that a rule compares nodes in, and where their nodes stand."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from evaluator.core.model.steps import Steps
from evaluator.core.policy.durations import StrategyState
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.readings.peers import Peers
from evaluator.features.pages.explain import states
from evaluator.features.pages.explain.states import Codes

_GROUPS = 10
"""Groups shown for a rule; the others are counted. Those with accused nodes come first, then the largest."""


def of_rule(
    state: StrategyState, number: int, table: MetricTable, codes: Codes
) -> Steps[dict[str, Any]]:
    """Return the groups of a rule on peers, each with a strip of its nodes by the rule's metric; `codes`: states of nodes."""
    rule = state.rules[number]
    column = table.columns[rule.metric]
    peers = column.peers
    if peers is None:
        return {}
    found = [*described(peers)]
    shown = _shown(peers, state.found.per_rule[:, number] | _held_back(state, number, table))
    yield
    groups = []
    for group in shown[:_GROUPS]:
        positions = (peers.usable & (peers.grouping.codes == group)).nonzero()[0]
        order = np.argsort(column.values[positions], kind="stable")
        own = codes[positions[order]]
        groups.append({**found[group], "states": states.counts(own), "strip": states.strip(own)})
        yield
    more = {"groupsMore": len(shown) - _GROUPS} if len(shown) > _GROUPS else {}
    return {
        "peers": {
            "by": peers.metric.groups,
            "least": peers.metric.least,
            "groups": groups,
            **more,
            "withoutPeers": int(np.count_nonzero(peers.alone)),
        }
    }


def _held_back(state: StrategyState, number: int, table: MetricTable) -> states.Mask:
    held_back = state.held_back.get(number)
    return table.nodes.none if held_back is None else held_back.mask


def _shown(peers: Peers, differing: states.Mask) -> list[int]:
    """Return the numbers of the groups in the order of a page."""
    sizes = peers.found.sizes
    found = np.bincount(peers.grouping.codes[differing], minlength=len(sizes)) > 0
    order: list[int] = np.lexsort((-sizes, ~found)).tolist()
    return [group for group in order if sizes[group]]


def described(peers: Peers) -> Iterator[dict[str, Any]]:
    """Yield each group: its name, the nodes with a reading, and their median and scale, null if there are too few."""
    parts = (peers.found.sizes, peers.found.medians, peers.found.scales, peers.most)
    rows = zip(peers.grouping.names, *(part.tolist() for part in parts), strict=True)
    for name, size, median, scale, most in rows:
        yield {
            "metric": peers.metric.base,
            "group": name,
            "nodes": size,
            "median": _number(median),
            "scale": _number(scale),
            "accusedAtMost": most,
        }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
