"""The smallest scorer, to be copied: every node passes and scores 1. See docs/adding-a-scorer.md."""

from collections.abc import Sequence

import numpy as np

from evaluator.core.model.requests import PodView
from evaluator.features.scorers.plugin import ClusterSnapshot, NodeRejection, ScorerResult


class Template:
    """Scores all nodes equally."""

    predicates: Sequence[str] = ("template",)
    priorities: Sequence[str] = ("template",)
    metrics: Sequence[str] = ()

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Reject no node, score 1 for each."""
        refused = NodeRejection(where=view.nodes.none, reason="the template refuses nothing")
        ones = np.ones(len(view.nodes), dtype=np.int64)
        return ScorerResult(refusals={"template": [refused]}, scores={"template": ones})
