"""Evictions in a simulation, by the evaluator's own plan."""

from collections.abc import Sequence

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.policy.decide import Decisions
from evaluator.features.evictions.feature import EvictionOptions
from evaluator.features.evictions.plan import HOUR, EvictionRate, PodsPlaced, plan
from lab.adapters.adapter import Adapter, Descheduling


class SimulatedEvictor:
    """Evicts the pods of the evaluator's plan; every eviction succeeds at once."""

    def __init__(self, rate: EvictionRate) -> None:
        self._rate = rate
        self._recent: dict[PolicyKey, tuple[float, ...]] = {}

    def due(
        self,
        decisions: Decisions,
        running: PodsByPolicy,
        feasible: FeasibleNodes,
        now: float,
        placements: PodsPlaced | None = None,
    ) -> Sequence[Pod]:
        """Return the pods to evict at `now` (seconds)."""
        steps = plan(
            decisions,
            running,
            feasible,
            self._recent,
            rate=self._rate,
            now=now,
            placed=placements,
        )
        planned = [*steps]
        evictions = [eviction for eviction in planned if eviction is not None]
        for eviction in evictions:
            recent = (*self._recent.get(eviction.policy, ()), now)
            self._recent[eviction.policy] = tuple(t for t in recent if now - t < HOUR)
        return [eviction.pod for eviction in evictions]


def simulated(options: EvictionOptions) -> SimulatedEvictor | None:
    """Return the evictions of a simulation with these flags; None without --evict."""
    if not options.evict:
        return None
    return SimulatedEvictor(EvictionRate(options.evict_period, options.evict_limit))


ADAPTER = Adapter(descheduling=Descheduling(options=EvictionOptions, start=simulated))
