"""Gangs: pods that wait behind a gate until their whole group exists and fits."""

import asyncio
import time
from collections.abc import Callable, Mapping

from evaluator.core.assembly import Core
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.feature import Feature
from evaluator.core.http.ports import Port
from evaluator.core.kube.client import Kube
from evaluator.core.leader.write_fence import WriteFence
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.pages import PagePart
from evaluator.core.report import Facts
from evaluator.core.wiring import Loop, Wired
from evaluator.features.gangs import webhook
from evaluator.features.gangs.controller import GangController
from evaluator.features.gangs.core import messages
from evaluator.features.gangs.core.capacity import CapacityTracker
from evaluator.features.gangs.core.explain import GangExplainer
from evaluator.features.gangs.core.labels import membership
from evaluator.features.gangs.core.podgroup import GangIndex, GangKey, PodGroup
from evaluator.features.gangs.core.types import GangReason
from evaluator.features.gangs.diagnoser import Diagnoser
from evaluator.features.gangs.events import GangEventRecorder
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.gangs.options import GangOptions
from evaluator.features.gangs.page import gang_of_pod, section
from evaluator.features.gangs.ungater import Ungater


class GangManager:
    """All gang components. `inventory` must contain all pods; `list_anew()` requests a new list of them."""

    def __init__(
        self,
        options: GangOptions,
        api: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: GangMetrics,
        *,
        inventory: PodCache,
        fence: WriteFence,
        list_anew: Callable[[], "asyncio.Future[None]"],
    ) -> None:
        self.index = GangIndex(inventory, count_all=options.gang_count_all)
        tracker = CapacityTracker(cluster, inventory, decider.newest)
        self.gang_controller = GangController(
            Ungater(api, metrics, count_all=options.gang_count_all),
            self.index,
            tracker,
            decider,
            metrics,
            timings=options.gang_timings,
            is_leader=fence.is_leader,
            list_anew=list_anew,
        )
        self.diagnoser = Diagnoser(
            api, self._gangs, self.gang_controller.newest, is_leader=fence.is_leader
        )
        metrics.gangs_obstructed.set_function(self.diagnoser.count_blocked)
        self.event_recorder = GangEventRecorder(
            api,
            metrics,
            self._gangs,
            self.gang_controller.newest,
            self.diagnoser.blockers,
            self.index.native,
            is_leader=fence.is_leader,
        )
        self.gang_explainer = GangExplainer(
            self._gangs,
            self.gang_controller.newest,
            tracker.capacity,
            options.gang_timings,
            time.time,
            waiting_for=tracker.unsynced,
            undecided=self.gang_controller.undecided,
            catching_up=tracker.catching_up,
            blockers=self.diagnoser.blockers,
            native=self.index.native,
            decides=fence.is_leader,
        )
        self._version = 0
        self._listen(cluster, decider, inventory, fence)

    def loops(self) -> list[Loop]:
        """Return what to run for the lifetime of the process."""
        return [self.gang_controller.run, self.diagnoser.run, self.event_recorder.run]

    def _gangs(self) -> Mapping[GangKey, PodGroup]:
        return self.index.by_key

    def _listen(
        self, cluster: ClusterCache, decider: DecisionLoop, inventory: PodCache, fence: WriteFence
    ) -> None:
        inventory.listeners.append(self._pod_changed)
        inventory.touched.append(self._capacity_changed)
        cluster.listeners.placement.append(self._capacity_changed)
        cluster.listeners.figures.append(self._capacity_changed)
        decider.listeners.append(self.gang_controller.decided)
        fence.listeners += [self.gang_controller.start_over, self.event_recorder.start_over]
        self.gang_controller.listeners.append(self._decided)
        self.diagnoser.listeners.append(self.event_recorder.wake)

    def _capacity_changed(self, _node: str = "") -> None:
        """Wake the controller, only if pods are gated: in a large cluster, capacity changes all the time."""
        if self.index.held:
            self.gang_controller.wake()

    def _pod_changed(self, _before: PodRecord | None, _after: PodRecord | None) -> None:
        """Wake the controller if the index, which is updated first, has a new version."""
        if self.index.version != self._version:
            self._version = self.index.version
            self.gang_controller.wake()

    def _decided(self) -> None:
        decisions = self.gang_controller.decisions
        for release in decisions.releases:
            if release.reason is GangReason.OVERDUE:
                notice = messages.overdue(decisions.verdicts.get(release.gang))
                for pod in release.pods:
                    self.event_recorder.record_once(pod, notice)
        self.event_recorder.wake()


class Shown:
    """What pages of pods and of the evaluator show of gangs."""

    def __init__(self, explainer: GangExplainer) -> None:
        self._explainer = explainer

    def page(self) -> PagePart:
        """Return the part of pages."""
        return PagePart(evaluator=self.evaluator, pod=self.pod, section=section(self._explainer))

    def evaluator(self) -> Facts:
        """Return that gangs are on."""
        return {"gangs": True}

    def pod(self, pod: Pod, page: Facts) -> Facts:
        """Return the gang of a pod and why it waits, if this evaluator knows."""
        gangs, facts = self._explainer, gang_of_pod(pod, page)
        if not facts or gangs.waiting_for() or (gang := gangs.find(facts["gang"])) is None:
            return facts
        head = gangs.head(gang, ())
        return {**facts, "gangState": head["state"], "gangMessage": head["message"]}


def _off() -> Facts:
    return {"gangs": False}


NO_GANGS = PagePart(evaluator=_off, pod=gang_of_pod, section=section(None))
"""What pages show without --gangs."""


def wire(core: Core, options: GangOptions) -> Wired:
    """Release gangs while this replica leads, with --gangs; serve the webhook with --gangWebhookPort."""
    metrics = GangMetrics(core.metrics.registry)
    server = webhook.server(core.options, options, core.metrics, metrics)
    ports = []
    if server is not None:
        ports.append(Port("gangs", server, options.gang_webhook_port, secured=True))
    if not options.gangs:
        return Wired(ports=ports, page=NO_GANGS)
    gangs = GangManager(
        options,
        core.api,
        core.cluster,
        core.loop,
        metrics,
        inventory=core.all_pods.require(ignored=options.ignored_resources, extra=membership),
        fence=core.fence,
        list_anew=core.all_pods.list_anew,
    )
    shown = Shown(gangs.gang_explainer)
    return Wired(
        ports=ports,
        loops=gangs.loops(),
        page=shown.page(),
    )


FEATURE = Feature(name="gangs", options=GangOptions, metrics=GangMetrics, wire=wire)
