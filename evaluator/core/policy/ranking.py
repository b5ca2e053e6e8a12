"""scheduleonmetric: scores nodes by the metric of its first rule; the operator tells which end is better.

By rank as in TAS; by value, over the range of the readings; or by headroom, the share of the node that is left.
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import NodeIndex, NodeScores, Positions
from evaluator.core.policy.evaluate import MetricColumn, MetricTable
from evaluator.core.policy.types import Operator, RankBy, Rule

MAX_SCORE = 10
"""kube-scheduler's MaxExtenderPriority."""


_DEAD_BAND = 0.05
"""Of what the nodes have, or of the largest reading: readings that differ by less score less than 10 apart."""
_ROUNDING = 1e-9
"""Of a score: the error of computing it, so that exact tenths keep their score."""
_MOST_BEST = 16
"""Nodes with the highest score that are named; more say nothing about where a pod goes."""


class Ranking:
    """The ranking of nodes with a reading; computed on first use, and shared by rules that rank alike."""

    def __init__(
        self,
        rule: Rule,
        nodes: NodeIndex,
        column: MetricColumn,
        by: RankBy = RankBy.RANK,
        full: Floats | None = None,
    ) -> None:
        """`full`: what each node has, in units of the metric, shape (nodes,); None if that is not known."""
        self.rule = rule
        self.by = by
        self._nodes = nodes
        self._column = column
        self._full = full

    def moved(self, added: Floats) -> "Ranking":
        """Return the ranking by the readings with these amounts added, shape (nodes,)."""
        return Ranking(self.rule, self._nodes, self._column.moved(added), self.by, self._full)

    def with_amounts(self, full: Floats) -> "Ranking":
        """Return the ranking of nodes that have these amounts, in units of the metric, shape (nodes,)."""
        return Ranking(self.rule, self._nodes, self._column, self.by, full)

    @property
    def count(self) -> int:
        """The number of nodes with a reading."""
        return len(self._nodes) - self._column.unusable.count

    def scores(self, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """Return scores 0..10 for those of `nodes` that have a reading, in order."""
        return list(self.scored(nodes).pairs())

    def scored(self, nodes: Sequence[str]) -> NodeScores:
        """Return scores 0..10 for those of `nodes` that have a reading, in order."""
        positions = self._nodes.find(nodes)
        if self._nodes:
            known = (positions >= 0) & self._column.usable[positions]
            if not known.all():
                positions = positions[known]
        else:
            positions = positions[:0]
        return NodeScores(self._nodes, positions, self._scores(positions))

    def _scores(self, positions: Positions) -> Positions:
        """Return the scores of the nodes at these positions, all of which have a reading."""
        full = None if self._full is None else self._full[positions]
        match self.by:
            case RankBy.RANK:
                return _spread(self._column.classes(self.rule.operator)[positions])
            case RankBy.HEADROOM if full is not None and _amounts(full):
                with np.errstate(over="ignore"):
                    used = self._column.values[positions] / full
                left = used if self.rule.operator is Operator.GREATER_THAN else 1.0 - used
                return _rounded(left)
            case RankBy.HEADROOM | RankBy.VALUE:
                return _by_value(self._column.costs(self.rule.operator)[positions], full)
            case _:
                assert_never(self.by)


def best(found: NodeScores) -> Sequence[str]:
    """Return the nodes with the highest score; none if there are more than 16."""
    if not found.scores.size:
        return ()
    top = found.positions[found.scores == found.scores.max()]
    return found.nodes.names_at(top) if len(top) <= _MOST_BEST else ()


def rank(rule: Rule, table: MetricTable, by: RankBy = RankBy.RANK) -> Ranking:
    """Return the ranking by a rule's metric; the target is ignored, and nodes without a reading are left out."""
    return Ranking(rule, table.nodes, table.column(rule.metric), by)


def score(costs: Floats) -> list[int]:
    """Return scores 0..10 by rank: 10 for the best; equal costs share a score.

    A node's rank is the number of better nodes. Up to 11 nodes the score is 10 - rank, as in TAS. More are spread
    evenly over 10..0; TAS's scores become negative there, and overrule every other plugin of the scheduler.
    """
    scores: list[int] = _spread(np.unique(costs, return_inverse=True)[1]).tolist()
    return scores


def _spread(classes: Positions) -> Positions:
    """Return scores by class (0 or more); a lower class is better."""
    if not classes.size:
        return classes
    sizes = np.bincount(classes)
    ranks = (np.cumsum(sizes) - sizes)[classes]
    last = len(classes) - 1
    if last > MAX_SCORE:
        ranks = (ranks * MAX_SCORE + last // 2) // last
    return MAX_SCORE - ranks


def _amounts(full: Floats) -> bool:
    """Return whether each node has a known amount."""
    return bool(((full > 0.0) & np.isfinite(full)).all())


def _by_value(costs: Floats, full: Floats | None) -> Positions:
    """Return 10 for the lowest cost and 0 for the highest, and what is between in proportion."""
    finite = costs[np.isfinite(costs)]
    if not finite.size:
        finite = np.zeros(1)
    low, high = finite.min(), finite.max()
    has = full[np.isfinite(full)] if full is not None else finite[:0]
    size = has.max() if has.size else max(abs(low), abs(high))
    with np.errstate(over="ignore", invalid="ignore"):
        span = max(high - low, _DEAD_BAND * size)
        above = (
            (np.clip(costs, low, high) - low) / span if np.isfinite(span) and span > 0.0 else 0.0
        )
    return _below(1.0 - np.broadcast_to(above, costs.shape))


def _below(shares: Floats) -> Positions:
    """Return shares from 0 to 1 as scores rounded down, so that only the best nodes score 10.

    Kube-scheduler chooses among equal scores at random: while the binding of a pod is not known yet, it would count in
    parts on all nodes of a tie, and too little on the one that it was placed on.
    """
    scores: Positions = np.floor(MAX_SCORE * np.clip(shares, 0.0, 1.0) + _ROUNDING).astype(np.intp)
    return scores


def _rounded(shares: Floats) -> Positions:
    """Return shares from 0 to 1 as scores; others count as the nearer end."""
    scores: Positions = np.floor(MAX_SCORE * np.clip(shares, 0.0, 1.0) + 0.5).astype(np.intp)
    return scores
