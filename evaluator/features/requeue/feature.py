"""Requeues rejected pods as soon as their policy permits a node again."""

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.wiring import Wired
from evaluator.features.requeue.controller import RequeueController
from evaluator.features.requeue.metrics import RequeueMetrics
from evaluator.features.requeue.options import RequeueOptions
from evaluator.features.requeue.plan import RequeueTimings


def wire(core: Core, options: RequeueOptions) -> Wired:
    """Requeue pods while this replica leads, with --nudge."""
    metrics = RequeueMetrics(core.metrics.registry)
    if not options.nudge:
        return Wired()
    controller = RequeueController(
        core.api,
        core.cluster,
        core.loop,
        metrics,
        is_leader=core.fence.is_leader,
        pace=RequeueTimings(settle=_settling(core)),
        journal=core.journal,
    )
    core.cluster.listeners.placement.append(controller.wake)
    core.fence.listeners.append(controller.wake)
    core.loop.listeners.append(controller.decided)
    return Wired(loops=[controller.run])


def _settling(core: Core) -> float:
    """Seconds until every replica has decided on the same readings: agents report to all at once, pollers read separately."""
    only_agents = core.options.sources == ("agents",)
    return 0.1 if only_agents else core.options.sync_period + 0.1


FEATURE = Feature(name="requeue", options=RequeueOptions, metrics=RequeueMetrics, wire=wire)
