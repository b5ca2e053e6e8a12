"""Evictions in a simulation, by the evaluator's own plan."""

from collections.abc import Sequence

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.pod import Pod
from evaluator.core.policy.decide import Decisions
from evaluator.features.evictions.feature import EvictionOptions
from evaluator.features.evictions.history import EvictionHistory
from evaluator.features.evictions.plan import ClusterView, EvictionRate, PodsPlaced, plan
from lab.adapters.adapter import Adapter, Descheduling


class SimulatedEvictor:
    """Evicts the pods of the evaluator's plan; every eviction succeeds at once."""

    def __init__(self, rate: EvictionRate) -> None:
        self._rate = rate
        self._history = EvictionHistory()

    def due(
        self,
        decisions: Decisions,
        running: PodsByPolicy,
        feasible: FeasibleNodes,
        now: float,
        placements: PodsPlaced | None = None,
    ) -> Sequence[Pod]:
        """Return the pods to evict at `now` (seconds)."""
        cluster = ClusterView(running=running, feasible_nodes=feasible, placed=placements)
        self._history.forget(now, self._rate.period, decisions.enforced)
        plans = plan(decisions, cluster, self._history, rate=self._rate, now=now)
        due = [eviction for one in plans for eviction in one.due]
        for eviction in due:
            beside = running.pods_of(eviction.policy)
            self._history.evicted(eviction.policy, eviction.pod, beside, now)
        return [eviction.pod for eviction in due]


def simulated(options: EvictionOptions) -> SimulatedEvictor | None:
    """Return the evictions of a simulation with these flags; None without --evict."""
    if not options.evict:
        return None
    return SimulatedEvictor(EvictionRate(options.evict_period, options.evict_limit))


ADAPTER = Adapter(descheduling=Descheduling(options=EvictionOptions, start=simulated))
