"""The smallest scorer: every node passes, and every node gets 1. It is here to be copied: docs/adding-a-scorer.md."""

from collections.abc import Sequence

import numpy as np

from evaluator.model.pod_demand import PodView
from evaluator.scoring.plugin import ScorerResult
from evaluator.scoring.snapshot import ClusterSnapshot, NodeRejection


class Template:
    """Likes every node alike."""

    predicates: Sequence[str] = ("template",)
    priorities: Sequence[str] = ("template",)
    metrics: Sequence[str] = ()

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Refuse no node, give 1 to each."""
        refused = NodeRejection(where=view.nodes.none, reason="the template refuses nothing")
        ones = np.ones(len(view.nodes), dtype=np.int64)
        return ScorerResult(refusals={"template": [refused]}, scores={"template": ones})
