"""scheduleonmetric: ranks nodes by the metric of its first rule; the operator tells which end is better."""

from collections.abc import Sequence

import numpy as np

from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.policy.evaluate import MetricColumn, MetricTable
from evaluator.core.policy.types import Rule
from evaluator.core.readings.column import Floats

MAX_SCORE = 10
"""kube-scheduler's MaxExtenderPriority."""


class Ranking:
    """The ranking of nodes with a reading; computed on first use, and shared by rules that rank alike."""

    def __init__(self, rule: Rule, nodes: NodeIndex, column: MetricColumn) -> None:
        self.rule = rule
        self._nodes = nodes
        self._column = column

    @property
    def count(self) -> int:
        """The number of nodes with a reading."""
        return len(self._nodes) - self._column.unusable.count

    def scores(self, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """Return scores 0..10 for those of `nodes` that have a reading, in order."""
        classes = self._column.classes(self.rule.operator)[self._nodes.find(nodes)]
        known = classes >= 0
        if not known.all():
            nodes = [nodes[position] for position in known.nonzero()[0].tolist()]
            classes = classes[known]
        return list(zip(nodes, _spread(classes), strict=True))


def rank(rule: Rule, table: MetricTable) -> Ranking:
    """Return the ranking by a rule's metric; the target is ignored, and nodes without a reading are left out."""
    return Ranking(rule, table.nodes, table.column(rule.metric))


def score(costs: Floats) -> list[int]:
    """Return scores 0..10 by rank: 10 for the best; equal costs share a score.

    A node's rank is the number of better nodes. Up to 11 nodes the score is 10 - rank, as in TAS. More are spread
    evenly over 10..0; TAS's scores become negative there, and overrule every other plugin of the scheduler.
    """
    return _spread(np.unique(costs, return_inverse=True)[1])


def _spread(classes: Positions) -> list[int]:
    """Return scores by class (0 or more); a lower class is better."""
    if not classes.size:
        return []
    sizes = np.bincount(classes)
    ranks = (np.cumsum(sizes) - sizes)[classes]
    last = len(classes) - 1
    if last > MAX_SCORE:
        ranks = (ranks * MAX_SCORE + last // 2) // last
    scores: list[int] = (MAX_SCORE - ranks).tolist()
    return scores
