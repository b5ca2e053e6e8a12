"""How the tools use features: `backtest` replays them on recordings, and `simulate` runs them in a modelled cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Pod
from evaluator.core.placement.placements import Placements
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.types import Policy
from evaluator.core.protocol import Args


@dataclass(frozen=True, slots=True)
class Period:
    """The range of a backtest (Unix seconds)."""

    begin: float
    end: float

    def seconds(self, begin: float, end: float) -> float:
        """Return how much of (begin, end) is in the range."""
        return max(0.0, min(end, self.end) - max(begin, self.begin))


@dataclass(frozen=True, slots=True)
class LimitTotals:
    """How a limit of nodes held a policy back.

    `nodes` of `of` nodes: the limit at the last evaluation with a reading. `trips`: times that it began to hold nodes back.
    """

    nodes: int
    of: int
    trips: int
    held_back_seconds: float


@dataclass(frozen=True, slots=True)
class ReplayTotals:
    """What a feature would have done for one policy. `writes`: their numbers, by the field of the report."""

    limit: LimitTotals | None = None
    writes: Mapping[str, int] = field(default_factory=dict)


class ReplayedFeature(Protocol):
    """A feature that acts on the decisions of a replay; its writes take effect at once."""

    def step(self, at: float, decisions: Decisions) -> None:
        """Advance to the decisions at a moment (Unix seconds)."""
        ...

    def finish(self) -> None:
        """Add the time up to the end of the range."""
        ...

    def totals(self, policy: PolicyKey) -> ReplayTotals:
        """Return what was done for a policy so far."""
        ...


StartReplay = Callable[[Sequence[Policy], NodeIndex, Period], ReplayedFeature]


@dataclass(frozen=True, slots=True)
class ExtenderVerbs:
    """kube-scheduler's verbs without HTTP, at a time (seconds, the clock of the readings).

    `rejected`: node → reason. `scores`: 0..10, an absent node counts as 0.
    """

    rejected: Callable[[Args, Decisions, float], Mapping[str, str]]
    scores: Callable[[Args, Decisions, float], Sequence[tuple[str, int]]]


MakeVerbs = Callable[[Placements], ExtenderVerbs]
"""Returns the verbs that count these pods, placed since the readings."""


class Descheduler(Protocol):
    """Chooses pods that leave their nodes, within the limits of its flags."""

    def due(
        self,
        decisions: Decisions,
        running: PodsByPolicy,
        feasible: FeasibleNodes,
        now: float,
        placements: Placements,
    ) -> Sequence[Pod]:
        """Return the pods that leave at `now` (seconds); call it with increasing times."""
        ...
