"""The state of each node for one policy as one word, and a strip that shows these states over thousands of nodes."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluator.core.model.steps import Steps
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint8]
"""A `NodeState` per node, shape (nodes,)."""

COLUMNS = 240
"""Parts of a strip; each stands for one node or several."""


class NodeState(IntEnum):
    """What a policy makes of a node; of several states the highest counts."""

    CLEAR = 0
    MISSING = 1
    """A metric of the policy has no usable reading, and no rule is violated."""
    AWAITED = 2
    """The node has not reported some metric yet: there is no verdict."""
    LABELLED = 3
    """Only a labeling rule holds."""
    PENDING = 4
    """A rule matches, and its `for` is running."""
    HELDBACK = 5
    """Differs from its peers and is not accused, since too many of its group differ."""
    CLEARING = 6
    """Violated; no rule matches any more, and `clearAfter` is running."""
    VIOLATED = 7

    @property
    def word(self) -> str:
        """The state in JSON and on pages."""
        return self.name.lower()


_HELDBACK = np.uint8(NodeState.HELDBACK)
_COMPLIANCE = np.array(
    [NodeState.CLEAR, NodeState.PENDING, NodeState.CLEARING, NodeState.VIOLATED], np.uint8
)
_LABELS = np.array(
    [NodeState.CLEAR, NodeState.PENDING, NodeState.LABELLED, NodeState.LABELLED], np.uint8
)
"""By `Phase`: the state of a node, for strategies that determine compliance and for others."""

WORDS = tuple(state.word for state in reversed(NodeState))
"""All states as words, the worst first."""


def states_of(decision: Decision, table: MetricTable) -> Steps[Codes]:
    """Return the state of each node for one policy, in steps of one strategy."""
    nodes = table.nodes
    codes = np.zeros(len(nodes), np.uint8)
    for metric in decision.policy.metrics:
        column = table.column(metric)
        if column.unusable.count:
            codes[column.unusable.mask] = NodeState.MISSING
    yield
    if (awaited := table.unreported(decision.policy.metrics)) is not nodes.none:
        codes[awaited] = NodeState.AWAITED
    yield
    for name, state in decision.states.items():
        found = state.phases(all_of=decision.policy.strategies[name].all_of)
        words = _COMPLIANCE if name.row.determines_compliance else _LABELS
        np.maximum(codes, words[found], out=codes)
        for held_back in state.held_back.values():
            np.maximum(codes, _HELDBACK, out=codes, where=held_back.mask)
        yield
    return codes


def counts(codes: Codes) -> dict[str, int]:
    """Return how many nodes are in each state, the worst first; all states are named."""
    numbers = np.bincount(codes, minlength=len(NodeState)).tolist()
    return {state.word: numbers[state] for state in reversed(NodeState)}


def strip(codes: Codes, columns: int = COLUMNS) -> dict[str, Any]:
    """Return the nodes in their order as runs of [first column, columns, state], without those that are clear.

    A column stands for one node, or for several adjacent ones of which it shows the worst.
    """
    if len(codes) > columns:
        begins = np.arange(columns) * len(codes) // columns
        codes = np.maximum.reduceat(codes, begins)
    edges = np.flatnonzero(np.diff(codes)) + 1
    begins = np.concatenate([[0], edges]) if len(codes) else edges
    ends = np.concatenate([edges, [len(codes)]])
    runs: list[Sequence[int | str]] = [
        [begin, end - begin, NodeState(code).word]
        for begin, end, code in zip(
            begins.tolist(), ends.tolist(), codes[begins].tolist(), strict=False
        )
        if code
    ]
    return {"columns": len(codes), "runs": runs}
