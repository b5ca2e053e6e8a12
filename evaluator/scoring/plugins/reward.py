"""Send a pod where pods of its kind did well: kubeRL's priority. What is learned, and how, is in `rewards`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.model.pod_demand import PodView
from evaluator.scoring.plugin import BEST, ScorerResult
from evaluator.scoring.rewards import Rewards
from evaluator.scoring.snapshot import ClusterSnapshot
from plimsoll.flags import option


def weight(text: str) -> float:
    """A number above 0, up to 1."""
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
    """Flags of this scorer. It has none for what is missing: a kind that was never seen on a node has not done badly there."""

    reward_weight: float = option(
        "rewardWeight",
        0.1,
        "how much one outcome of a pod counts against all before it, of its kind and on its node",
        metavar="SHARE",
        parse=weight,
    )

    @property
    def no_rewards(self) -> Rewards:
        """What is known before anything was learned."""
        return Rewards(self.reward_weight)


class Reward:
    """The better its kind did, the better."""

    predicates: Sequence[str] = ()
    priorities: Sequence[str] = ("rl-priority",)
    metrics: Sequence[str] = ()

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Ten times the value, cut off: 10 only for where no pod of the kind ever failed."""
        values = view.rewards.values(pod.kind, view.nodes)
        scores = np.trunc(BEST * values).astype(np.int64)
        return ScorerResult(scores={"rl-priority": scores}, facts={"reward": values})
