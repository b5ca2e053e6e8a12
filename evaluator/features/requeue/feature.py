"""Requeues rejected pods as soon as their policy permits a node again."""

from dataclasses import dataclass

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.options import FeatureOptions
from evaluator.core.signals import Decided, LeadershipGained, PlacementChanged, wakes
from evaluator.core.wiring import Wired
from evaluator.features.requeue.controller import REQUEUED, RequeueController, RequeueMetrics
from evaluator.features.requeue.plan import RequeueTimings
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class RequeueOptions(FeatureOptions):
    """Requeueing of rejected pods."""

    nudge: bool = option(
        "nudge",
        True,
        "requeue a rejected pod, by an annotation on it, as soon as its policy permits a node again; without it "
        "kube-scheduler retries within 5 minutes",
    )


def wire(core: Core, options: RequeueOptions) -> Wired:
    """Requeue pods while this replica leads, with --nudge."""
    metrics = RequeueMetrics(core.metrics.registry)
    if not options.nudge:
        return Wired(action_kinds=[REQUEUED])
    controller = RequeueController(
        core.api,
        core.cluster,
        core.loop,
        metrics,
        is_leader=core.fence.is_leader,
        pace=RequeueTimings(settle=_settling(core)),
        publish=core.signals.publish,
        part=core.isolation.part("requeue"),
    )
    return Wired(
        reacts=(
            *wakes(controller.wake, PlacementChanged, LeadershipGained),
            *wakes(controller.decided, Decided),
        ),
        loops=[controller.run],
        action_kinds=[REQUEUED],
    )


def _settling(core: Core) -> float:
    """Seconds until every replica has decided on the same readings: agents report to all at once, pollers read separately."""
    only_agents = core.options.sources == ("agents",)
    return 0.1 if only_agents else core.options.sync_period + 0.1


FEATURE = Feature(name="requeue", options=RequeueOptions, metrics=RequeueMetrics, wire=wire)
