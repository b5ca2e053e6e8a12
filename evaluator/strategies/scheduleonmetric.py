"""scheduleonmetric: prefer nodes by one metric. Its first rule names the metric and says which end is better."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.policy import Operator, Rule
from evaluator.rules import View
from evaluator.store import Floats

MAX_SCORE = 10
"""kube-scheduler's MaxExtenderPriority."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Which nodes have a reading, and how it compares: a lower `cost` is better."""

    rule: Rule
    costs: dict[str, float]

    def scores(self, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """Scores 0..10 for those of these nodes that have a reading, in the order given."""
        ranked = [node for node in nodes if node in self.costs]
        costs = np.fromiter((self.costs[node] for node in ranked), np.float64, len(ranked))
        return list(zip(ranked, score(costs), strict=True))


def rank(rule: Rule, view: View) -> Ranking:
    """Order the nodes of a view by a rule's metric; its target plays no part, nodes without the metric are left out."""
    column = view.columns[rule.metric]
    usable = column.usable
    costs = column.values
    if rule.operator is Operator.GREATER_THAN:
        costs = -costs
    elif rule.operator is Operator.EQUALS:  # no order at all: a node is as good as any other
        costs = np.zeros(costs.shape)
    names = np.array(view.nodes, dtype=object)[usable].tolist()
    return Ranking(rule, dict(zip(names, costs[usable].tolist(), strict=True)))


def score(costs: Floats) -> list[int]:
    """Scores 0..10 by rank: 10 for the best, equal costs share a score.

    A node's rank is the number of nodes that are better. Up to 11 nodes the score is 10 - rank, as in TAS; more are
    spread evenly over 10..0, where TAS goes below zero and so overrules every other plugin of the scheduler.
    """
    ordered = np.sort(costs)
    ranks = np.searchsorted(ordered, costs, side="left")
    last = len(costs) - 1
    if last > MAX_SCORE:
        ranks = (ranks * MAX_SCORE + last // 2) // last
    return [MAX_SCORE - rank for rank in ranks.tolist()]
