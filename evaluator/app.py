"""Builds the evaluator from its parts, starts and stops them."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from evaluator.config import Settings
from evaluator.controllers_manager import ControllerManager
from evaluator.core.cache import cluster
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.http import ops_port
from evaluator.core.http.listeners import Listeners
from evaluator.core.http.ops import OpsServer
from evaluator.core.kube import resources
from evaluator.core.kube.client import WATCH_GRACE, Kube
from evaluator.core.kube.reflector import LONGEST_WATCH, Reflector, Sink
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.served_metrics import ServedMetrics
from evaluator.core.loop.similar import SimilarMetrics
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.loop.violation_times import ViolationTimes
from evaluator.core.metrics import Metrics
from evaluator.core.model import pod_record
from evaluator.core.model.node import NodeCondition
from evaluator.core.policy.actions.names import own_prefixes
from evaluator.core.readings.failing_rules import FailingRuleIndex
from evaluator.core.readings.merged import AGENTS
from evaluator.core.readings.node_conditions import NodeConditions, WithNodeConditions
from evaluator.core.readings.store import Store
from evaluator.core.runtime.gc_tuning import FreezeWhenReady
from evaluator.core.sources.agents import port as agents_port
from evaluator.core.sources.agents.server import AgentServer
from evaluator.core.sources.build import SourceDependencies, assemble
from evaluator.features.custom_metrics.port import CustomMetricsPort
from evaluator.features.extender.policies import PolicyVerbs
from evaluator.features.pages.pod_reader import PodReader
from evaluator.features.pages.reports import Reports
from evaluator.features.pages.sources import PageSources
from evaluator.features.scorers.host import ScorerHost
from evaluator.features.scorers.plugin import Scorer
from evaluator.features.status.enforcement import Effects
from plimsoll import logs
from plimsoll.durations import format_duration
from plimsoll.process import memory
from wire.failing_rules import FailingRules

log = logs.get(__name__)

T = TypeVar("T")


class Service:
    """One replica: ports that answer from the current decisions, the decision loop and the controllers."""

    def __init__(
        self, settings: Settings, api: Kube, scorers: Mapping[str, Scorer] | None = None
    ) -> None:
        """Raises TlsError for unusable certificates."""
        self._settings = settings
        self._api = api
        self._cluster = ClusterCache(stale_after=settings.cluster_stale_after)
        self._metrics = Metrics()
        store = Store(
            stale_after=settings.stale_after,
            started=time.monotonic(),
            grace=settings.agent_limits.reconnect,
        )
        self._failing_rules = FailingRuleIndex(store.reported_at, stale_after=settings.stale_after)
        self._conditions = NodeConditions(epoch=time.time() - time.monotonic())
        subscriptions = Subscriptions()
        around = SourceDependencies(api, self._cluster, subscriptions, self._metrics, self._polled)
        self._sources = assemble(settings, store, around, period=settings.sync_period)
        host = self._scorers = ScorerHost(
            settings,
            scorers or {},
            self._cluster,
            self._sources.readings,
            self._metrics,
            rewards=lambda: self._writers.rewards,
        )
        self._violation_times = ViolationTimes()
        readings = WithNodeConditions(self._sources.readings, self._conditions)
        self._decider = self._decision_loop(readings, subscriptions)
        self._cluster.listeners.nodes.append(self._node_changed)
        self._cluster.listeners.conditions.append(self._conditions_changed)
        self._cluster.listeners.decisions.append(self._decider.touch)
        settled = FreezeWhenReady(lambda: not self._decider.waiting_for)
        self._decider.listeners.append(settled.look)
        self._all_pods = self._pods_watcher()
        effects = Effects(
            self._cluster.running, self._cluster.feasible_nodes, evicting=settings.evict
        )
        self._writers = ControllerManager(
            settings,
            api,
            self._cluster,
            self._decider,
            self._metrics,
            inventory=host.inventory,
            all_pods=self._all_pods,
            effects=effects,
        )
        self._writers.listen(self._cluster, self._decider)
        self._agents = self._intake(store, subscriptions)
        self._custom_metrics = self._custom_metrics_port(readings)
        operations = OpsServer(
            self._decider,
            self._metrics,
            reports=self._reports(effects),
            waiting_for=lambda: host.waiting_for,
        )
        self._ports = Listeners(
            settings,
            self._metrics,
            extender=PolicyVerbs(
                self._decider.current,
                self._metrics,
                for_pod=host.for_pod,
                scoring=host.routes(),
            ),
            scorers=host.separate_routes(),
            operations=ops_port.server(settings, api, self._metrics, operations.answer),
            agents=self._agents,
            custom_metrics=self._custom_metrics.server if self._custom_metrics else None,
        )
        self._decider.give_way(lambda: self._ports.busy)

    def _decision_loop(
        self, readings: WithNodeConditions, subscriptions: Subscriptions
    ) -> DecisionLoop:
        settings, host = self._settings, self._scorers
        return DecisionLoop(
            self._cluster,
            readings,
            subscriptions,
            self._metrics,
            most_metrics=settings.max_metrics,
            most_rules=settings.max_rules,
            namespace_metrics=settings.max_namespace_metrics,
            namespace_rules=settings.max_namespace_rules,
            taint_prefix=settings.taint_prefix,
            violation_times=self._violation_times if settings.explain else None,
            scoring=host.scoring,
            scorers_take=host.metrics_used,
            similar=SimilarMetrics(
                agents=AGENTS in settings.sources, conditions=lambda: self._conditions.metrics
            ),
            served=ServedMetrics(
                settings.served_patterns, conditions=lambda: self._conditions.metrics
            ),
        )

    def _pods_watcher(self) -> Reflector[pod_record.PodRecord] | None:
        """Return the watch of all pods; None if only those of policies are needed."""
        settings, host = self._settings, self._scorers
        if not (host.on or settings.gangs or settings.custom_metrics_port):
            return None
        decode = partial(
            pod_record.decode,
            ignored=settings.ignored_resources,
            labels=bool(settings.custom_metrics_port),
        )
        return self._watcher(resources.ALL_PODS, decode, host.inventory.pods)

    def _custom_metrics_port(self, readings: WithNodeConditions) -> CustomMetricsPort | None:
        if not self._settings.custom_metrics_port:
            return None
        return CustomMetricsPort(
            self._settings,
            self._api,
            self._metrics,
            cluster=self._cluster,
            pods=self._scorers.inventory,
            decider=self._decider,
            readings=readings,
        )

    def _reports(self, effects: Effects) -> Reports | None:
        """Return what the pages of the ops port show; None if they are off."""
        if not self._settings.explain:
            return None
        writers, gangs = self._writers, self._writers.gangs
        sources = PageSources(
            self._decider,
            self._cluster,
            clock=time.monotonic,
            effects=effects,
            read_pod=PodReader(self._api).read,
            pod_explainer=self._scorers.pod_explainer(
                self._cluster.pods.objects, lambda: self._decider.latest
            ),
            gang_explainer=gangs.gang_explainer if gangs else None,
            since=self._violation_times.since,
            is_leader=writers.is_leader,
            leader=writers.leader,
            agents=lambda: self._agents.connected if AGENTS in self._settings.sources else None,
            readings_from=self._settings.sources,
            actions=writers.actions,
            failing_rules=self._failing_rules,
            taint_prefixes=own_prefixes(self._settings.taint_prefix),
        )
        return Reports(sources)

    def _intake(self, store: Store, subscriptions: Subscriptions) -> AgentServer:
        agents = AgentServer(
            store,
            subscriptions,
            interval=self._settings.sync_period,
            on_report=self._reported,
            on_similar=self._similar_reported,
            patterns=self._decider.served.patterns,
            on_matching=self._matching_reported,
            on_failing=self._failing_reported,
            on_refusal=lambda code: self._metrics.agents_refused.labels(code.name).inc(),
            authorizer=agents_port.authorizer(
                self._settings,
                self._api,
                plain=self._settings.agents_plain,
                exists=self._cluster.may_exist,
            ),
            limits=self._settings.agent_limits.for_metrics(self._settings.max_metrics),
        )
        self._metrics.agents.set_function(lambda: agents.connected)
        return agents

    def _node_changed(self, node: str, registered: bool) -> None:
        registrations = self._sources.registrations
        registrations.changed(node, registered=registered, now=time.monotonic())

    def _conditions_changed(self, node: str, conditions: Sequence[NodeCondition]) -> None:
        if self._conditions.changed(node, conditions):
            self._decider.touch()

    def _polled(self) -> None:
        self._decider.touch()

    def _similar_reported(self, names: Mapping[str, Sequence[str]]) -> None:
        if self._decider.similar.report(names):
            self._decider.touch()

    def _matching_reported(self, names: Sequence[str]) -> None:
        if self._decider.served.found(names):
            self._decider.touch()

    def _failing_reported(self, node: str, found: FailingRules) -> None:
        self._failing_rules.report(node, found, time.monotonic())

    def _reported(self, changed: bool) -> None:
        self._metrics.reports.inc()
        if changed:
            self._decider.touch()

    async def run(self, stop: asyncio.Event, at_once: asyncio.Event) -> None:
        """Serve until `stop` is set, and for --shutdownDelay afterwards or until `at_once` is set.

        Raises OSError or ListenError for a port that cannot be opened.
        """
        loops: list[asyncio.Task[None]] = []
        try:
            await self._ports.open()
            loops += self._start_loops()
            await _unless_failed(stop.wait(), loops)
            await _unless_failed(self._leave(at_once), loops)
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._ports.close()

    async def _leave(self, at_once: asyncio.Event) -> None:
        """Stop being ready and leading, and answer until clients had the time to notice."""
        delay = self._settings.shutdown_delay
        log.info("stopping", delay=format_duration(delay))
        self._decider.stop("this replica is stopping")
        self._ports.retire()
        until = asyncio.get_running_loop().time() + delay
        await self._writers.release()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await at_once.wait()
        log.info("closing the ports")

    def _watcher(
        self,
        resource: resources.APIResource,
        decode: Callable[[msgspec.Raw], T],
        sink: Sink[T],
        unserved: Callable[[], None] = lambda: None,
    ) -> Reflector[T]:
        staleness, kind = self._cluster.staleness, resource.name

        def age() -> float:
            found = staleness.age(kind, time.monotonic())
            return math.nan if found is None else found

        def on_activity() -> None:
            if staleness.observed(kind, time.monotonic()):
                log.info("receiving %s from the API server again", kind)
                self._decider.touch()  # writes that were due meanwhile

        self._metrics.cluster_age.labels(kind).set_function(age)
        # Without events, opening a watch is the only sign that a copy is current: early enough, also if one end is lost.
        stale_after = self._settings.cluster_stale_after
        return Reflector(
            self._api,
            resource,
            decode,
            sink,
            on_activity=on_activity,
            unserved=unserved,
            longest_watch=min(LONGEST_WATCH, stale_after / 2),
            grace=min(WATCH_GRACE, stale_after / 4),
        )

    def _start_loops(self) -> list[asyncio.Task[None]]:
        state = self._cluster
        decode_policy = partial(cluster.decode_policy, observe=self._settings.observe)
        policies_lost = partial(state.policies.mark_unserved, resources.POLICIES.unserved)
        loops = [
            self._watcher(resources.POLICIES, decode_policy, state.policies, policies_lost).run(),
            self._watcher(resources.NODES, cluster.decode_node, state.nodes).run(),
            self._watcher(resources.LINKED_PODS, cluster.decode_pod, state.pods).run(),
            self._decider.run(),
            *(poller.run() for poller in self._sources.pollers),
            *self._writers.loops(),
            memory.return_unused(),
        ]
        if self._all_pods is not None:
            loops.append(self._all_pods.run())
        if self._custom_metrics is not None:
            loops.append(self._custom_metrics.run())
        return [asyncio.create_task(loop) for loop in loops]


async def _unless_failed(
    until: Coroutine[Any, Any, object], loops: Sequence[asyncio.Task[None]]
) -> None:
    """Wait for a coroutine. Loops do not return: raises the error of one that fails meanwhile."""
    waiting = asyncio.create_task(until)
    try:
        done, _ = await asyncio.wait([waiting, *loops], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        waiting.cancel()
