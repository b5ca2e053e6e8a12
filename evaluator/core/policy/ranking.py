"""scheduleonmetric: ranks nodes by the metric of its first rule; the operator tells which end is better."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.policy.evaluate import MetricColumn, MetricTable
from evaluator.core.policy.types import Rule
from evaluator.core.readings.column import Floats

MAX_SCORE = 10
"""kube-scheduler's MaxExtenderPriority."""


_MOST_BEST = 16
"""Nodes with the highest score that are named; more say nothing about where a pod goes."""


class Scores(NamedTuple):
    """Nodes with their scores 0..10. `best`: those with the highest, none if there are more than 16."""

    nodes: list[tuple[str, int]]
    best: Sequence[str] = ()


class Ranking:
    """The ranking of nodes with a reading; computed on first use, and shared by rules that rank alike."""

    def __init__(self, rule: Rule, nodes: NodeIndex, column: MetricColumn) -> None:
        self.rule = rule
        self._nodes = nodes
        self._column = column

    def moved(self, added: Floats) -> "Ranking":
        """Return the ranking by the readings with these amounts added, shape (nodes,)."""
        return Ranking(self.rule, self._nodes, self._column.moved(added))

    @property
    def count(self) -> int:
        """The number of nodes with a reading."""
        return len(self._nodes) - self._column.unusable.count

    def scores(self, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """Return scores 0..10 for those of `nodes` that have a reading, in order."""
        return self.scored(nodes).nodes

    def scored(self, nodes: Sequence[str]) -> Scores:
        """Return scores 0..10 for those of `nodes` that have a reading, in order, and the best nodes."""
        classes = self._column.classes(self.rule.operator)[self._nodes.find(nodes)]
        known = classes >= 0
        if not known.all():
            nodes = [nodes[position] for position in known.nonzero()[0].tolist()]
            classes = classes[known]
        scores = _spread(classes)
        best: Sequence[str] = ()
        if scores.size:
            top = (scores == scores.max()).nonzero()[0]
            best = [nodes[n] for n in top.tolist()] if len(top) <= _MOST_BEST else ()
        return Scores(list(zip(nodes, scores.tolist(), strict=True)), best)


def rank(rule: Rule, table: MetricTable) -> Ranking:
    """Return the ranking by a rule's metric; the target is ignored, and nodes without a reading are left out."""
    return Ranking(rule, table.nodes, table.column(rule.metric))


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
