"""What features do for single pods: the interface between them and the closed loop of the command `simulate`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluator.core.cache.feasible_nodes import FeasibleNodes
from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.model.pod import Pod
from evaluator.core.placement.placements import Placements
from evaluator.core.policy.decide import Decisions
from evaluator.core.protocol import Args


@dataclass(frozen=True, slots=True)
class ExtenderVerbs:
    """kube-scheduler's verbs without HTTP, at a time (seconds, the clock of the readings).

    `rejected`: node → reason. `scores`: 0..10, an absent node counts as 0.
    """

    rejected: Callable[[Args, Decisions, float], Mapping[str, str]]
    scores: Callable[[Args, Decisions, float], Sequence[tuple[str, int]]]


MakeVerbs = Callable[[Placements], ExtenderVerbs]
"""Returns the verbs that count these pods, placed since the readings."""


class Evictor(Protocol):
    """Chooses pods to evict, within the limits of its flags."""

    def due(
        self,
        decisions: Decisions,
        running: PodsByPolicy,
        feasible: FeasibleNodes,
        now: float,
        placements: Placements,
    ) -> Sequence[Pod]:
        """Return the pods that it evicts at `now` (seconds); call it with increasing times."""
        ...
