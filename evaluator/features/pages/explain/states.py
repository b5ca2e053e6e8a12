"""The state of each node for one policy as one word, a strip that shows these states over thousands of nodes, and
the nodes that differ: since when, and what was written to them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from msgspec import structs

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.page_fields import WrittenFields, extended
from evaluator.core.pages.window import Window
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.features.pages.kinds import DifferingNode, PolicyNode, Strip, Timer, Written
from plimsoll.steps import Steps

Codes = npt.NDArray[np.uint8]
"""A `NodeState` per node, shape (nodes,)."""

COLUMNS = 240
"""Parts of a strip; each stands for one node or several."""
ALL = "all"
"""The state of a window that shows clear nodes too. By default those that differ are shown."""
_SEARCHED = 1_000
"""Names compared with the search in one step."""


class NodeState(IntEnum):
    """What a policy makes of a node; of several states the highest counts."""

    CLEAR = 0
    MISSING = 1
    """A metric of the policy has no usable reading, and no rule is violated. Nodes that never had the metric are clear."""
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

_WORDS = tuple(state.word for state in NodeState)
WORDS = tuple(state.word for state in reversed(NodeState))
"""All states as words, the worst first."""


def states_of(decision: Decision, table: MetricTable) -> Steps[Codes]:
    """Return the state of each node for one policy, in steps of one strategy."""
    nodes = table.nodes
    codes = np.zeros(len(nodes), np.uint8)
    for metric in decision.policy.metrics:
        column = table.column(metric)
        strict = metric in decision.policy.strict_metrics
        missing = column.unusable if strict else column.unknown
        if missing.count:
            codes[missing.mask] = NodeState.MISSING
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


def strip(codes: Codes, columns: int = COLUMNS) -> Strip:
    """Return the nodes in their order as runs of [first column, columns, state], without those that are clear.

    A column stands for one node, or for several adjacent ones of which it shows the worst.
    """
    if len(codes) > columns:
        begins = np.arange(columns) * len(codes) // columns
        codes = np.maximum.reduceat(codes, begins)
    edges = np.flatnonzero(np.diff(codes)) + 1
    begins = np.concatenate([[0], edges]) if len(codes) else edges
    ends = np.concatenate([edges, [len(codes)]])
    runs = [
        (begin, end - begin, _WORDS[code])
        for begin, end, code in zip(
            begins.tolist(), ends.tolist(), codes[begins].tolist(), strict=False
        )
        if code
    ]
    return Strip(columns=len(codes), runs=runs)


Since = Callable[[PolicyKey, StrategyName, str], float | None]
"""Returns since when a node violates a strategy (seconds, the store's clock); None if it does not."""


def chosen(codes: Codes, nodes: NodeIndex, window: Window) -> Steps[Positions]:
    """Return the positions of the nodes in the state and search of a window: the worst first, then by name."""
    if window.state == ALL:
        wanted = np.ones(len(codes), dtype=bool)
    elif window.state in WORDS:
        wanted = codes == NodeState[window.state.upper()]
    else:
        wanted = codes != NodeState.CLEAR
    positions = wanted.nonzero()[0]
    if window.search:
        matching: list[int] = []
        for begin in range(0, len(positions), _SEARCHED):
            block = positions[begin : begin + _SEARCHED].tolist()
            matching += [position for position in block if window.search in nodes[position]]
            yield
        positions = np.array(matching, np.intp)
    order = np.argsort(-codes[positions].astype(np.int16), kind="stable")
    return positions[order]


def with_states(
    entries: Iterator[tuple[str, PolicyNode]],
    decision: Decision,
    codes: Codes,
    nodes: NodeIndex,
    cached: Mapping[str, Node],
    since: Since,
    written_for: Callable[[Node | None, Decision], Sequence[WrittenFields | None]],
    *,
    now: float,
) -> Steps[list[tuple[str, DifferingNode]]]:
    """Return the nodes of a policy with state, seconds in violation by strategy, timers, and what was written."""
    labels = _labels(decision)
    listed = []
    for entry in entries:
        listed.append(entry)
        yield
    positions = nodes.find([name for name, _ in listed])
    timers = yield from running_timers(decision, positions, now)
    found = []
    for name, one in listed:
        position, node = nodes.position[name], cached.get(name)
        written = Written(labels=own_labels(node, labels))
        shown = DifferingNode(
            **structs.asdict(one),
            state=NodeState(int(codes[position])).word,
            violated_seconds=violated_seconds(decision, name, since, now),
            timers=timers.get(position, []),
            written=extended(written, *written_for(node, decision)),
        )
        found.append((name, shown))
        yield
    return found


def own_labels(node: Node | None, keys: Collection[str] | None = None) -> dict[str, str]:
    """Return the labels of a node that are ours, by key; only those of `keys` if given."""
    ours = node.node_labels.ours if node else {}
    return {key: value for key, value in sorted(ours.items()) if keys is None or key in keys}


def never(_key: PolicyKey, _name: StrategyName, _node: str) -> None:
    """Return None: nothing is known of when violations began."""


def _labels(decision: Decision) -> Sequence[str]:
    rules = [rule for strategy in decision.policy.strategies.values() for rule in strategy.rules]
    return [decision.policy.key.name, *(label.key for rule in rules for label in rule.labels)]


def violated_seconds(decision: Decision, node: str, since: Since, now: float) -> dict[str, float]:
    """Return for how long a node has violated each strategy that it violates."""
    began = {name.value: since(decision.policy.key, name, node) for name in decision.states}
    return {name: round(max(0.0, now - at), 3) for name, at in began.items() if at is not None}


def running_timers(
    decision: Decision, positions: Positions, now: float
) -> Steps[dict[int, list[Timer]]]:
    """Return the running `for` and `clearAfter` of the nodes at some positions, by position, in steps of one rule."""
    wanted = np.sort(positions)
    by_position: dict[int, list[Timer]] = {}
    for name, state in decision.states.items():
        for number, timers in state.timers.items():
            for index in np.flatnonzero(
                np.isin(timers.waiting, wanted, assume_unique=True)
            ).tolist():
                position, rule = int(timers.waiting[index]), state.rules[number]
                pending = bool(timers.matches[position])
                lasts = rule.options.for_seconds if pending else rule.options.clear_after
                left = max(0.0, float(timers.began[index]) + lasts - now)
                by_position.setdefault(position, []).append(
                    Timer(
                        strategy=name.value,
                        rule=str(rule),
                        timer="for" if pending else "clearAfter",
                        left_seconds=round(left, 3),
                    )
                )
            yield
    return by_position
