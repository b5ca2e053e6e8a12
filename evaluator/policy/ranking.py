"""scheduleonmetric: prefer nodes by one metric. Its first rule names the metric and says which end is better."""

from collections.abc import Sequence

import numpy as np

from evaluator.model.node_index import NodeIndex, Positions
from evaluator.policy.evaluate import MetricColumn, MetricTable
from evaluator.policy.types import Rule
from evaluator.readings.column import Floats

MAX_SCORE = 10
"""kube-scheduler's MaxExtenderPriority."""


class Ranking:
    """Which nodes have a reading, and how it compares: worked out when somebody asks, once for all who rank alike."""

    def __init__(self, rule: Rule, nodes: NodeIndex, column: MetricColumn) -> None:
        self.rule = rule
        self._nodes = nodes
        self._column = column

    @property
    def count(self) -> int:
        """How many nodes have a reading."""
        return len(self._nodes) - self._column.unusable.count

    def scores(self, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """Scores 0..10 for those of these nodes that have a reading, in the order given."""
        classes = self._column.classes(self.rule.operator)[self._nodes.find(nodes)]
        known = classes >= 0
        if not known.all():
            nodes = [nodes[place] for place in known.nonzero()[0].tolist()]
            classes = classes[known]
        return list(zip(nodes, _spread(classes), strict=True))


def rank(rule: Rule, table: MetricTable) -> Ranking:
    """Order the nodes of a view by a rule's metric; its target plays no part, nodes without the metric are left out."""
    return Ranking(rule, table.nodes, table.column(rule.metric))


def score(costs: Floats) -> list[int]:
    """Scores 0..10 by rank: 10 for the best, equal costs share a score.

    A node's rank is the number of nodes that are better. Up to 11 nodes the score is 10 - rank, as in TAS; more are
    spread evenly over 10..0, where TAS goes below zero and so overrules every other plugin of the scheduler.
    """
    return _spread(np.unique(costs, return_inverse=True)[1])


def _spread(classes: Positions) -> list[int]:
    """Scores of nodes by their class, 0 or more: who is of a lower one is better."""
    if not classes.size:
        return []
    sizes = np.bincount(classes)
    ranks = (np.cumsum(sizes) - sizes)[classes]
    last = len(classes) - 1
    if last > MAX_SCORE:
        ranks = (ranks * MAX_SCORE + last // 2) // last
    scores: list[int] = (MAX_SCORE - ranks).tolist()
    return scores
