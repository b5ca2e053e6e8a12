"""Records when each rule was violated on each node, and the worst reading meanwhile."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Floats, Mask, NodeIndex, Positions, alike
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Operator, Policy, Rule, Strategy
from evaluator.core.simulation import Period
from evaluator.tools.replay.replay import Block, Step


class Interval(NamedTuple):
    """A time in violation (Unix seconds). `worst` is NaN if no reading was usable; `by_missing`: it began by a missing reading.

    `began_before`: it began before the range. `ongoing`: it had not ended at the end of the range.
    """

    node: int
    start: float
    end: float
    worst: float
    by_missing: bool = False
    began_before: bool = False
    ongoing: bool = False

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


class Track:
    """One rule of a strategy, or all of its rules if they count only together (`allOf`)."""

    def __init__(
        self, policy: Policy, name: StrategyName, numbers: Sequence[int], nodes: NodeIndex
    ) -> None:
        self.policy: PolicyKey = policy.key
        self.strategy = name
        body = policy.strategies[name]
        self.rules: tuple[Rule, ...] = tuple(body.rules[number] for number in numbers)
        self.rule = " and ".join(map(str, self.rules))
        """The rule as text."""
        self._numbers = numbers
        self._all_of = body.all_of
        self._mask: Mask = nodes.none
        self._start = np.zeros(len(nodes))
        self._worst = np.full(len(nodes), np.nan)
        self._extreme = np.fmin if self.rules[0].operator is Operator.LESS_THAN else np.fmax
        self._peers = len(numbers) == 1 and self.rules[0].peers is not None
        self._missing: Mask = nodes.none
        self._block: Block | None = None
        self._row = 0
        self.intervals: list[Interval] = []

    def step(self, step: Step, period: Period) -> None:
        """Advance to the decisions of a step."""
        violated = step.decisions.policies[self.policy].states[self.strategy].found
        mask = violated.violated if self._all_of else violated.per_rule[:, self._numbers[0]]
        self._read_until(step.block, step.row)
        if alike(mask, self._mask):
            self._compare(step)
            return
        began, ended = mask & ~self._mask, self._mask & ~mask
        self._end(ended, step.at, period)
        self._start[began], self._worst[began] = step.at, np.nan
        self._missing = (self._missing & mask) | (
            began & violated.missing[:, [*self._numbers]].any(axis=1)
        )
        self._mask = mask.copy()
        self._compare(step)

    def finish(self, period: Period, block: Block | None) -> None:
        """End all intervals at the end of the range."""
        if block is not None:
            self._read_until(block, len(block.moments))
        self._end(self._mask, period.end, period, ongoing=True)

    def _end(self, ended: Mask, at: float, period: Period, *, ongoing: bool = False) -> None:
        for node in ended.nonzero()[0].tolist():
            start = float(self._start[node])
            if at > period.begin and start < period.end:
                self.intervals.append(
                    Interval(
                        node,
                        max(start, period.begin),
                        min(at, period.end),
                        float(self._worst[node]),
                        by_missing=bool(self._missing[node]),
                        began_before=start < period.begin,
                        ongoing=ongoing or at > period.end,
                    )
                )

    def _read_until(self, block: Block, row: int) -> None:
        """Compare the readings up to a row with the worst so far; a new block repeats the last row of the one before."""
        if self._block is not block:
            if self._block is not None:
                self._read(self._block, self._row, len(self._block.moments))
            self._block, self._row = block, 0
        self._read(block, self._row, row)
        self._row = row

    def _read(self, block: Block, first: int, last: int) -> None:
        if len(self.rules) > 1 or self._peers or first >= last or not self._mask.any():
            return
        positions = self._mask.nonzero()[0]
        rows = block.rows[self.rules[0].metric].values[first:last, positions]
        self._note(positions, self._extreme.reduce(rows, axis=0))

    def _compare(self, step: Step) -> None:
        """Compare a peer metric with the worst so far: unlike readings, it is known for the moments of decisions only."""
        if self._peers and self._mask.any():
            positions = self._mask.nonzero()[0]
            column = step.decisions.table.columns[self.rules[0].metric]
            self._note(positions, column.values[positions])

    def _note(self, positions: Positions, values: Floats) -> None:
        self._worst[positions] = self._extreme(self._worst[positions], values)


def tracks(policies: Sequence[Policy], nodes: NodeIndex) -> Iterator[Track]:
    """Yield the tracks of all policies."""
    for policy in policies:
        for name, strategy in policy.strategies.items():
            if name is not StrategyName.SCHEDULEONMETRIC:
                for numbers in _groups(strategy):
                    yield Track(policy, name, numbers, nodes)


def _groups(strategy: Strategy) -> Iterator[Sequence[int]]:
    if strategy.all_of:
        if strategy.rules:
            yield range(len(strategy.rules))
    else:
        yield from ([number] for number in range(len(strategy.rules)))
