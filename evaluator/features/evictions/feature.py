"""Evictions of pods from nodes that violate the deschedule strategy of their policy."""

from evaluator.core.assembly import Core
from evaluator.core.feature import Evicting, Feature
from evaluator.core.wiring import Wired
from evaluator.features.evictions.controller import EvictionController
from evaluator.features.evictions.effects import EvictionEffects
from evaluator.features.evictions.metrics import EvictionMetrics
from evaluator.features.evictions.options import EvictionOptions
from evaluator.features.evictions.plan import EvictionRate, SimulatedEvictor


def wire(core: Core, options: EvictionOptions) -> Wired:
    """Evict pods while this replica leads, with --evict; without it, say which would be."""
    metrics = EvictionMetrics(core.metrics.registry)
    core.metrics.policy_counters.append(metrics.evictions)
    cluster = core.cluster
    effects = EvictionEffects(cluster.running, cluster.feasible_nodes, evicting=options.evict)
    if not options.evict:
        return Wired(effects=effects)
    core.contributions.evicts = True
    controller = EvictionController(
        core.api,
        cluster,
        core.loop,
        metrics,
        pace=EvictionRate(options.evict_period, options.evict_limit),
        may_evict=core.contributions.may_act,
        is_leader=core.fence.is_leader,
        journal=core.journal,
    )
    cluster.listeners.placement.append(controller.wake)
    core.fence.listeners.append(controller.start_over)
    core.loop.listeners.append(controller.wake)
    core.contributions.listeners.append(controller.wake)
    return Wired(loops=[controller.run], effects=effects)


def simulated(options: EvictionOptions) -> SimulatedEvictor:
    """Return the evictions of a simulation with these flags."""
    return SimulatedEvictor(EvictionRate(options.evict_period, options.evict_limit))


FEATURE = Feature(
    name="evictions",
    options=EvictionOptions,
    metrics=EvictionMetrics,
    wire=wire,
    evicting=Evicting(options=EvictionOptions, start=simulated),
)
