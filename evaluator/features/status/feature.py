"""Statuses of policies, Events on them and on their pods."""

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.kube.node_events import NodeEventWriter
from evaluator.core.options import FeatureOptions
from evaluator.core.signals import Acted, PlacementChanged, PolicyReportChanged, on, wakes
from evaluator.core.wiring import Wired
from evaluator.core.writes.node_writer import while_leading
from evaluator.features.status.action_events import ActionEvents
from evaluator.features.status.conditions import peers_held_back
from evaluator.features.status.controller import StatusController
from evaluator.features.status.event_recorder import PolicyEventRecorder
from evaluator.features.status.pod_controller import (
    PodCountsChanged,
    PolicyPodController,
    StatusMetrics,
)


class _Reporting:
    """Whether this replica may report: it leads, and knows what features add to statuses."""

    def __init__(self, core: Core) -> None:
        self._fence = core.fence
        self._contributions = core.contributions

    def may_report(self) -> bool:
        """Return whether statuses and Events may be written."""
        return self._fence.is_leader() and self._contributions.known()


def wire(core: Core, _options: FeatureOptions) -> Wired:
    """Report while this replica leads."""
    metrics = StatusMetrics(core.metrics.registry)
    contributions, similar_to = core.contributions, core.loop.similar.to
    may_report = _Reporting(core).may_report
    pods = PolicyPodController(
        core.api,
        core.cluster,
        core.loop,
        metrics,
        is_leader=core.fence.is_leader,
        publish=core.signals.publish,
        part=core.isolation.part("pods of policies"),
    )
    status = StatusController(
        core.api,
        core.loop,
        effects=contributions.effects,
        pods_of=pods.counts_of,
        similar_to=similar_to,
        parts_of=contributions.parts,
        cause_of=core.causes.cause_of,
        status_of=core.cluster.status_of,
        exists=core.cluster.has_policy,
        is_leader=may_report,
        part=core.isolation.part("statuses"),
    )
    recorder = PolicyEventRecorder(
        core.api,
        core.loop,
        metrics.policy_events,
        similar_to=similar_to,
        parts_of=contributions.parts,
        status_of=core.cluster.status_of,
        exists=core.cluster.has_policy,
        is_leader=may_report,
        part=core.isolation.part("events of policies"),
    )
    actions = ActionEvents(
        NodeEventWriter(
            core.api,
            core.cluster,
            metrics.node_events_dropped,
            is_leader=core.fence.is_leader,
            part=core.isolation.part("events of nodes"),
        )
    )
    return Wired(
        reacts=(
            on(Acted, actions.acted),
            *while_leading(status),
            *while_leading(recorder),
            *while_leading(pods),
            *wakes(pods.wake, PlacementChanged),
            *wakes(status.pods_changed, PlacementChanged),
            *wakes(status.wake, PodCountsChanged, PolicyReportChanged),
            *wakes(recorder.wake, PolicyReportChanged),
        ),
        loops=[status.run, recorder.run, pods.run, actions.run],
        policy_part=peers_held_back,
        policy_counters=[metrics.policy_events],
    )


FEATURE = Feature(name="status", options=FeatureOptions, metrics=StatusMetrics, wire=wire)
