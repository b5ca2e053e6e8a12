"""Gangs: pods that wait behind a gate until their whole group exists and fits. Their parts, their pages, and the wiring."""

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path

from evaluator.core.assembly import Core
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.feature import Feature
from evaluator.core.http.ports import Port
from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube
from evaluator.core.leader.write_fence import WriteFence
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_spec_view import FINISHED
from evaluator.core.page_fields import Fields
from evaluator.core.pages.part import PagePart
from evaluator.core.pages.section import SHOWN, PageError, PageView, Report, Section
from evaluator.core.pages.window import Window
from evaluator.core.signals import (
    Decided,
    LeadershipGained,
    NodeCapacityChanged,
    NodeUsageChanged,
    PlacementChanged,
    PodChanged,
    Publish,
    Reaction,
    on,
    on_node,
    unheard,
    wakes,
)
from evaluator.core.wiring import Loop, Wired
from evaluator.features.gangs import webhook
from evaluator.features.gangs.controller import PACE, PATIENCE, GangController, GangsDecided
from evaluator.features.gangs.core import messages
from evaluator.features.gangs.core.capacity import CapacityTracker
from evaluator.features.gangs.core.explain import GangExplainer, members
from evaluator.features.gangs.core.labels import membership, numbers
from evaluator.features.gangs.core.membership import GATE
from evaluator.features.gangs.core.page import PAGES, GangOfPodFields, GangQueue, GangsFields
from evaluator.features.gangs.core.podgroup import GangIndex, GangKey, PodGroup
from evaluator.features.gangs.core.types import GangReason
from evaluator.features.gangs.diagnoser import Diagnoser, GangBlockersChanged
from evaluator.features.gangs.events import GangEventRecorder
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.gangs.options import GangOptions
from evaluator.features.gangs.ungater import Ungater
from plimsoll.http.pieces import unhurried
from plimsoll.pace import Pace

_TEMPLATES = Path(__file__).parent / "templates"


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
        publish: Publish = unheard,
        patience: float = PATIENCE,
        pace: Pace = PACE,
        part: Callable[[str], Part] = uncounted,
        conceals: bool = False,
    ) -> None:
        """`part` returns what takes what the handling of one gang raises; `conceals`: see `GangExplainer`."""
        self.index = GangIndex(inventory, count_all=options.gang_count_all)
        tracker = CapacityTracker(
            cluster, inventory, lambda: decider.latest, part("capacity of gangs")
        )
        self.gang_controller = GangController(
            Ungater(api, metrics, count_all=options.gang_count_all),
            self.index,
            tracker,
            decider,
            metrics,
            timings=options.gang_timings,
            is_leader=fence.is_leader,
            list_anew=list_anew,
            publish=publish,
            patience=patience,
            pace=pace,
            part=part("gangs"),
        )
        self.diagnoser = Diagnoser(
            api,
            self._gangs,
            lambda: self.gang_controller.decisions,
            is_leader=fence.is_leader,
            publish=publish,
            part=part("diagnoses of gangs"),
        )
        metrics.gangs_obstructed.set_function(self.diagnoser.count_blocked)
        self.event_recorder = GangEventRecorder(
            api,
            metrics,
            self._gangs,
            lambda: self.gang_controller.decisions,
            self.diagnoser.blockers,
            self.index.native,
            is_leader=fence.is_leader,
            part=part("events of gangs"),
        )
        self.gang_explainer = GangExplainer(
            self._gangs,
            lambda: self.gang_controller.decisions,
            tracker.capacity,
            options.gang_timings,
            time.time,
            waiting_for=tracker.unsynced,
            undecided=self.gang_controller.undecided,
            catching_up=tracker.catching_up,
            blockers=self.diagnoser.blockers,
            native=self.index.native,
            decides=fence.is_leader,
            conceals=conceals,
        )
        self._tracker = tracker
        self._version = 0

    def loops(self) -> list[Loop]:
        """Return what to run for the lifetime of the process."""
        return [self.gang_controller.run, self.diagnoser.run, self.event_recorder.run]

    def _gangs(self) -> Mapping[GangKey, PodGroup]:
        return self.index.by_key

    def reactions(self) -> tuple[Reaction, ...]:
        """Return what makes decisions on gangs old."""
        controller, recorder = self.gang_controller, self.event_recorder
        return (
            on(PodChanged, self.pod_changed),
            on_node(NodeUsageChanged, self.node_changed),
            on_node(NodeCapacityChanged, self.node_changed),
            *wakes(self.placement_changed, PlacementChanged),
            *wakes(controller.decided, Decided),
            *wakes(controller.start_over, LeadershipGained),
            *wakes(recorder.start_over, LeadershipGained),
            *wakes(self.gangs_decided, GangsDecided),
            *wakes(recorder.wake, GangBlockersChanged),
        )

    def node_changed(self, node: str) -> None:
        """Count a node again."""
        self._tracker.node_changed(node)
        self.placement_changed()

    def placement_changed(self) -> None:
        """Wake the controller, only if pods are gated: in a large cluster, capacity changes all the time."""
        if self.index.held:
            self.gang_controller.wake()

    def pod_changed(self, pod: PodChanged) -> None:
        """Update the gangs and what waits; wake the controller if a gang changed."""
        self.index.pod_changed(pod)
        self._tracker.pod_changed(pod)
        if self.index.version != self._version:
            self._version = self.index.version
            self.gang_controller.wake()

    def gangs_decided(self) -> None:
        """Write Events of gangs that were released without room, and of those that wait."""
        decisions = self.gang_controller.decisions
        for release in decisions.releases:
            if release.reason is GangReason.OVERDUE:
                notice = messages.overdue(decisions.verdicts.get(release.gang))
                for pod in release.pods:
                    self.event_recorder.record_once(pod, notice)
        self.event_recorder.wake()


class GangReports:
    """Builds the reports. Each method must be called by one page at a time. `explainer`: None if gangs are off."""

    def __init__(self, explainer: GangExplainer | None) -> None:
        self._explainer = explainer

    async def queue(self, window: Window | None = None) -> Report:
        """Report on all waiting gangs, or on those of a page."""
        gangs = self._ready()
        waiting = await unhurried(gangs.waiting())
        if window is not None:
            waiting = [gang for gang in waiting if window.covers(gang.key.namespace)]
        head = GangQueue(waiting_for=list(gangs.undecided()))
        if window is None:
            return Report(head, arrays={"gangs": gangs.queue(waiting)})
        listed = await unhurried(gangs.queue(waiting))
        selected = [entry for entry in listed if window.search in entry.gang]
        head.window = window.described(len(selected), len(listed))
        return Report(head, arrays={"gangs": window.shown(selected)})

    async def gang(self, name: str, window: Window | None = None) -> Report:
        """Report on a gang: its state and the reason, its pods, and where they fit; with the nodes of a page."""
        gangs = self._ready()
        if (gang := gangs.find(name)) is None:
            raise PageError(gangs.unknown(name[:SHOWN]))
        line = await unhurried(gangs.line(gang))
        await unhurried(gangs.catching_up())
        fit = gangs.fit(gang)
        head = gangs.head(gang, line, fit)
        pods = await unhurried(members(gang))
        if window is None:
            return Report(head, objects={"members": pods, "nodes": fit.nodes()})
        nodes = await unhurried(_fitting(node, window) for node in fit.nodes())
        shown = [node for node in nodes if node is not None]
        head.window = window.described(len(shown), len(nodes))
        head.members_more = max(0, len(pods) - window.size)
        few = itertools.islice(pods, window.size)
        return Report(head, objects={"members": few, "nodes": window.shown(shown)})

    def _ready(self) -> GangExplainer:
        if (explainer := self._explainer) is None:
            raise PageError("gangs are off (--gangs)")
        if waiting := explainer.waiting_for():
            raise PageError(f"waiting for {', '.join(waiting)}", HTTPStatus.SERVICE_UNAVAILABLE)
        return explainer

    async def explained(self, name: str) -> Report:
        """Report on a gang, or on all waiting gangs without a name."""
        return await (self.gang(name) if name else self.queue())

    def listed_page(self, window: Window) -> PageView:
        """Return the page of the queue."""
        return PageView("gangs.html", "Gangs", partial(self.queue, window))

    def gang_page(self, name: str, window: Window) -> PageView:
        """Return the page of a gang."""
        return PageView("gang.html", "Gang", partial(self.gang, name, window), name)


def section(explainer: GangExplainer | None) -> Section:
    """Return the pages of gangs; None: gangs are off."""
    reports = GangReports(explainer)
    return Section(
        name="gangs",
        title="Gangs",
        shown=explainer is not None,
        templates=_TEMPLATES,
        listed=reports.listed_page,
        one=reports.gang_page,
        query="gang",
        explained=reports.explained,
        see={"gangs": "/explain?gang=", "gang": "/explain?gang=<namespace>/<podGroup>"},
    )


def _fitting(node: tuple[str, Fields], window: Window) -> tuple[str, Fields] | None:
    """Return the entry of a node if it is in the search of a window."""
    return node if window.search in node[0] else None


def gang_of_pod(pod: Pod) -> GangOfPodFields | None:
    """Return the gang of a pod that has our gate, and that the gate holds it; None for other pods."""
    if all(gate.name != GATE for gate in pod.spec.scheduling_gates or ()):
        return None
    group = numbers(pod.metadata.labels or {}).group or pod.metadata.name
    gang = GangOfPodFields(gang=f"{pod.metadata.namespace}/{group}")
    if not (pod.spec.node_name or pod.status.phase in FINISHED):
        gang.turned_away_by_plimsoll = True
    return gang


class Shown:
    """What pages of pods and of the evaluator show of gangs."""

    def __init__(self, explainer: GangExplainer) -> None:
        self._explainer = explainer

    def page(self) -> PagePart:
        """Return the part of pages."""
        return PagePart(evaluator=self.evaluator, pod=self.pod, section=section(self._explainer))

    def evaluator(self) -> GangsFields:
        """Return that gangs are on."""
        return GangsFields(gangs=True)

    def pod(self, pod: Pod) -> GangOfPodFields | None:
        """Return the gang of a pod and why it waits, if this evaluator knows."""
        gangs, fields = self._explainer, gang_of_pod(pod)
        if fields is None or gangs.waiting_for() or (gang := gangs.find(fields.gang)) is None:
            return fields
        found = gangs.state(gang)
        fields.gang_state, fields.gang_message = found.state, found.message
        return fields


def _off() -> GangsFields:
    return GangsFields(gangs=False)


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
        publish=core.signals.publish,
        part=core.isolation.part,
        conceals=core.options.ops_authorize,
    )
    shown = Shown(gangs.gang_explainer)
    return Wired(
        reacts=gangs.reactions(),
        ports=ports,
        loops=gangs.loops(),
        page=shown.page(),
    )


FEATURE = Feature(name="gangs", options=GangOptions, metrics=GangMetrics, wire=wire, pages=PAGES)
