"""Builds the gang components and connects them. Used only with --gangs."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.client import Kube
from evaluator.core.leader.write_fence import WriteFence
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import Metrics
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.controller import GangController
from evaluator.features.gangs.core import events
from evaluator.features.gangs.core.capacity import CapacityTracker
from evaluator.features.gangs.core.explain import GangExplainer
from evaluator.features.gangs.core.index import GangIndex
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup
from evaluator.features.gangs.core.types import GangDecisions, GangReason
from evaluator.features.gangs.diagnoser import Diagnoser
from evaluator.features.gangs.events import GangEventRecorder
from evaluator.features.gangs.options import GangOptions
from evaluator.features.gangs.ungater import Ungater


class GangManager:
    """All gang components. `inventory` must contain all pods; `list_anew()` requests a new list of them."""

    def __init__(
        self,
        options: GangOptions,
        api: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: Metrics,
        *,
        inventory: PodCache,
        fence: WriteFence,
        list_anew: Callable[[], "asyncio.Future[None]"],
    ) -> None:
        self.index = GangIndex(inventory, count_all=options.gang_count_all)
        tracker = CapacityTracker(cluster, inventory, lambda: decider.latest)
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
        self.diagnoser = Diagnoser(api, self._gangs, self._decisions, is_leader=fence.is_leader)
        metrics.gangs_obstructed.set_function(lambda: self.diagnoser.blocked)
        self.event_recorder = GangEventRecorder(
            api,
            metrics,
            self._gangs,
            self._decisions,
            self.diagnoser.blockers,
            lambda: self.index.native,
            is_leader=fence.is_leader,
        )
        self.gang_explainer = GangExplainer(
            self._gangs,
            self._decisions,
            tracker.capacity,
            options.gang_timings,
            time.time,
            waiting_for=lambda: tracker.waiting_for,
            undecided=lambda: self.gang_controller.waiting_for,
            catching_up=tracker.catching_up,
            blockers=self.diagnoser.blockers,
            native=lambda: self.index.native,
            decides=fence.is_leader,
        )
        self._version = 0
        self._listen(cluster, decider, inventory, fence)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines to run for the lifetime of the process."""
        return [self.gang_controller.run(), self.diagnoser.run(), self.event_recorder.run()]

    def _gangs(self) -> Mapping[GangKey, PodGroup]:
        return self.index.by_key

    def _decisions(self) -> GangDecisions:
        return self.gang_controller.decisions

    def _listen(
        self, cluster: ClusterCache, decider: DecisionLoop, inventory: PodCache, fence: WriteFence
    ) -> None:
        inventory.listeners.append(self._pod_changed)
        inventory.touched.append(lambda _node: self._capacity_changed())
        cluster.listeners.placement.append(self._capacity_changed)
        cluster.listeners.figures.append(lambda _node: self._capacity_changed())
        decider.listeners.append(self.gang_controller.decided)
        fence.listeners += [self.gang_controller.start_over, self.event_recorder.start_over]
        self.gang_controller.listeners.append(self._decided)
        self.diagnoser.listeners.append(self.event_recorder.wake)

    def _capacity_changed(self) -> None:
        """Wake the controller only if pods are gated: in a large cluster, capacity changes all the time."""
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
                notice = events.overdue(decisions.verdicts.get(release.gang))
                for pod in release.pods:
                    self.event_recorder.record_once(pod, notice)
        self.event_recorder.wake()
