"""Scores nodes by past success of similar pods: kubeRL's priority. The learning is in `rewards`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.core.model.requests import PodView
from evaluator.features.scorers.plugin import BEST, ClusterSnapshot, ScorerResult
from evaluator.features.scorers.rewards import Rewards
from plimsoll.flags import option


def weight(text: str) -> float:
    """Return a number above 0 and up to 1. Raises ValueError."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number <= 1.0:
        raise ValueError(f"not a number above 0 and up to 1: {text!r}")
    return number


REWARD_CONFIG_MAP = "plimsoll-rewards"
"""Name of the ConfigMap, in the namespace of the Lease, that keeps the learned values across restarts."""


@dataclass(frozen=True, kw_only=True)
class RewardOptions:
    """Scorer `reward`. Missing data needs none: a kind without outcomes on a node has not failed there."""

    reward_weight: float = option(
        "rewardWeight",
        0.1,
        "weight of one outcome of a pod, relative to all earlier ones of its kind on its node",
        metavar="SHARE",
        parse=weight,
    )

    @property
    def no_rewards(self) -> Rewards:
        """The rewards before the first outcome."""
        return Rewards(self.reward_weight)


class Reward:
    """Prefers nodes on which the pod's kind succeeded."""

    predicates: Sequence[str] = ()
    priorities: Sequence[str] = ("rl-priority",)
    metrics: Sequence[str] = ()

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Return ten times the value, truncated: 10 only if no pod of the kind ever failed there."""
        values = view.rewards.values(pod.kind, view.nodes)
        scores = np.trunc(BEST * values).astype(np.int64)
        return ScorerResult(scores={"rl-priority": scores}, facts={"reward": values})
