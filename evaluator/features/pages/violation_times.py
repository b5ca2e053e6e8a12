"""Since when each node violates a strategy, as far as this process has seen it; for pages, not for decisions."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Floats, Mask, NodeIndex, Positions, Reindex
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.strategies import StrategyName


class _Began(NamedTuple):
    """The violating nodes of one strategy, and since when (seconds)."""

    violated: Mask
    positions: Positions
    at: Floats


class ViolationTimes:
    """Since when each node violates a strategy (seconds, the clock of the decisions).

    A violation that existed in the first decision of a policy counts from that decision.
    """

    def __init__(self) -> None:
        self._nodes = NodeIndex()
        self._uids: dict[PolicyKey, str] = {}
        self._began: dict[tuple[PolicyKey, StrategyName], _Began] = {}

    def since(self, key: PolicyKey, name: StrategyName, node: str) -> float | None:
        """Return since when a node violates a strategy; None if it does not."""
        began, position = self._began.get((key, name)), self._nodes.position.get(node)
        if began is None or position is None or not began.violated[position]:
            return None
        return float(began.at[np.searchsorted(began.positions, position)])

    def update(self, decisions: Decisions, now: float) -> Iterator[None]:
        """Take over new decisions of `now`, one policy per step."""
        reindex = Reindex(self._nodes, decisions.table.nodes)
        began: dict[tuple[PolicyKey, StrategyName], _Began] = {}
        for key, decision in decisions.policies.items():
            same = self._uids.get(key) == decision.policy.uid
            for name, violated in _violated(decision):
                before = self._began.get((key, name)) if same else None
                began[key, name] = _began(before, violated, reindex, now)
            yield
        self._nodes = decisions.table.nodes
        self._uids = {key: decision.policy.uid for key, decision in decisions.policies.items()}
        self._began = began


def _violated(decision: Decision) -> Iterator[tuple[StrategyName, Mask]]:
    for name, state in decision.states.items():
        yield name, state.found.violated


def _began(before: _Began | None, violated: Mask, reindex: Reindex, now: float) -> _Began:
    if before is not None and reindex.is_identity and np.array_equal(before.violated, violated):
        return before
    positions = violated.nonzero()[0]
    if before is None or not before.positions.size:
        return _Began(violated, positions, np.full(len(positions), now))
    times = np.full(len(before.violated), np.nan)
    times[before.positions] = before.at
    at = reindex.values(times)[positions]
    return _Began(violated, positions, np.where(np.isnan(at), now, at))
