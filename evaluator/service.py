"""The evaluator put together: which room is told by which, what listens where, and in what order it all ends."""

import asyncio
import math
import ssl
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from evaluator import cluster, kube, nudges, ops, tls
from evaluator.adopter import Adopter
from evaluator.cluster import Cluster
from evaluator.config import Settings
from evaluator.decider import Decider
from evaluator.evictions import Pace
from evaluator.evictor import Evictor
from evaluator.extender.server import Extender, serve
from evaluator.kube import Kube
from evaluator.labeler import Labeler
from evaluator.leader import Leader, own_namespace
from evaluator.lease import Terms
from evaluator.mandate import Mandate
from evaluator.metrics import Metrics
from evaluator.nudger import Nudger
from evaluator.recorder import Recorder
from evaluator.reporter import Reporter
from evaluator.sources import agentport
from evaluator.sources.agents import Agents
from evaluator.sources.assembly import Surroundings, assemble
from evaluator.sources.certificates import Certificates
from evaluator.sources.options import AGENTS
from evaluator.store import Store
from evaluator.subscription import Subscriptions
from evaluator.tokens import Bucket
from evaluator.watcher import Sink, Watcher
from plimsoll import logs

log = logs.get(__name__)

T = TypeVar("T")


class Service:
    """One replica: servers that read the current decisions, and loops that make them and act on them."""

    def __init__(self, settings: Settings, api: Kube) -> None:
        self._settings = settings
        self._api = api
        self._cluster = Cluster(stale_after=settings.cluster_stale_after)
        self._metrics = Metrics()
        self._store = Store(stale_after=settings.stale_after, started=time.monotonic())
        subscriptions = Subscriptions()
        around = Surroundings(api, self._cluster, subscriptions, self._metrics, self._polled)
        self._sources = assemble(settings, self._store, around, period=settings.sync_period)
        self._decider = Decider(self._cluster, self._sources.readings, subscriptions, self._metrics)
        self._agents = Agents(
            self._store,
            subscriptions,
            interval=settings.sync_period,
            on_report=self._reported,
            on_refusal=lambda code: self._metrics.agents_refused.labels(code.name).inc(),
            verifier=agentport.verifier(settings, self._cluster, api),
        )
        self._metrics.agents.set_function(lambda: self._agents.connected)
        self._mandate = Mandate()
        allowed = self._mandate.allowed
        api.guard = self._mandate.write
        self._metrics.leader.set_function(allowed)
        self._leader = Leader(
            api,
            self._mandate,
            Terms(settings.lease_duration, settings.renew_deadline, settings.retry_period),
            namespace=settings.lease_namespace or own_namespace(),
            name=settings.lease_name,
        )
        bucket = Bucket(settings.kube_qps, settings.kube_burst)
        self._labeler = Labeler(
            api, self._cluster, self._decider, self._metrics, bucket=bucket, allowed=allowed
        )
        self._adopter = Adopter(api, self._cluster, self._decider, bucket=bucket, allowed=allowed)
        self._reporter = Reporter(
            api,
            self._decider,
            lambda: self._labeler.conflicts,
            said=self._cluster.status_of,
            allowed=allowed,
        )
        self._recorder = Recorder(
            api,
            self._decider,
            self._metrics,
            lambda: self._labeler.conflicts,
            said=self._cluster.status_of,
            allowed=allowed,
        )
        self._evictor = Evictor(
            api,
            self._cluster,
            self._decider,
            self._metrics,
            pace=Pace(settings.evict_period, settings.evict_limit),
            allowed=allowed,
        )
        self._nudger = Nudger(
            api,
            self._cluster,
            self._decider,
            self._metrics,
            allowed=allowed,
            pace=nudges.Pace(settle=_settling(settings)),
        )
        self._connect()

    def _connect(self) -> None:
        """Who has to look again when something changed."""
        listeners = self._cluster.listeners
        listeners.decisions.append(self._decider.touch)
        listeners.labels.append(self._labeler.wake)
        listeners.placement += [self._evictor.wake, self._nudger.wake]
        self._labeler.listeners += [self._reporter.wake, self._recorder.wake]
        self._mandate.listeners += [
            self._labeler.start_over,
            self._reporter.start_over,
            self._recorder.start_over,
            self._evictor.start_over,
            self._nudger.wake,
            self._adopter.wake,
        ]
        for wake in (self._labeler.wake, self._reporter.wake, self._evictor.wake):
            self._decider.listeners.append(wake)
        self._decider.listeners += [
            self._recorder.wake,
            self._nudger.decided,
            self._adopter.wake,
        ]

    def _polled(self) -> None:
        self._decider.touch()

    def _reported(self, changed: bool) -> None:
        self._metrics.reports.inc()
        if changed:
            self._decider.touch()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises OSError where a port cannot be had, TlsError for bad certificates."""
        settings = self._settings
        secured = (
            None
            if settings.unsafe
            else tls.server_context(settings.cert, settings.key, settings.cacert)
        )
        streaming = AGENTS in settings.sources
        certificates = agentport.certificates(settings) if streaming else None
        servers: list[web.AppRunner] = []
        loops: list[asyncio.Task[None]] = []
        try:
            servers.append(await self._serve("ops", self._ops(), settings.ops_port))
            if streaming:
                await self._serve_agents(certificates)
            extender = Extender(self._decider.current, self._metrics)
            servers.append(
                await self._serve("extender", extender.app(), settings.port, secured=secured)
            )
            loops += self._start_loops()
            ending = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([ending, *loops], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ending}:
                await task  # a loop never ends by itself: this raises what broke it
            log.info("stopping")
            self._decider.stop("the end: this replica is stopping")
            await self._leader.resign()
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._agents.stop()
            for server in reversed(servers):
                await server.cleanup()

    def _ops(self) -> web.Application:
        return ops.app(self._decider, self._metrics, clock=time.monotonic)

    async def _serve(
        self,
        name: str,
        app: web.Application,
        port: int,
        *,
        secured: ssl.SSLContext | None = None,
    ) -> web.AppRunner:
        host = self._settings.bind_address
        runner, bound = await serve(app, host or None, port, tls=secured)
        log.info("listening", server=name, address=authority(host, bound), tls=secured is not None)
        return runner

    async def _serve_agents(self, secured: Certificates | None) -> None:
        host, port = self._settings.bind_address, self._settings.agent_port
        credentials = secured.credentials() if secured else None
        bound = await self._agents.start(authority(host or "::", port), credentials=credentials)
        log.info(
            "listening", server="agents", address=authority(host, bound), tls=secured is not None
        )

    def _watcher(
        self, resource: kube.Resource, decode: Callable[[msgspec.Raw], T], sink: Sink[T]
    ) -> Watcher[T]:
        freshness, kind = self._cluster.freshness, resource.name

        def age() -> float:
            found = freshness.age(kind, time.monotonic())
            return math.nan if found is None else found

        def heard() -> None:
            if freshness.heard(kind, time.monotonic()):
                log.info("the API server is heard of %s again", kind)
                self._decider.touch()  # what nobody wrote meanwhile is due

        self._metrics.cluster_age.labels(kind).set_function(age)
        silence = self._settings.cluster_stale_after / 2
        return Watcher(self._api, resource, decode, sink, heard=heard, silence=silence)

    def _start_loops(self) -> list[asyncio.Task[None]]:
        state = self._cluster
        loops = [
            self._watcher(kube.POLICIES, cluster.decode_policy, state.policies).run(),
            self._watcher(kube.NODES, cluster.decode_node, state.nodes).run(),
            self._watcher(kube.LINKED_PODS, cluster.decode_pod, state.pods).run(),
            self._decider.run(),
            self._labeler.run(),
            self._reporter.run(),
            self._recorder.run(),
        ]
        loops += [poller.run() for poller in self._sources.pollers]
        if self._settings.evict:
            loops.append(self._evictor.run())
        if self._settings.nudge:
            loops.append(self._nudger.run())
        if self._settings.take_over_labels:
            loops.append(self._adopter.run())
        if self._settings.leader_elect:
            loops.append(self._leader.run())
        else:
            self._mandate.extend()
        return [asyncio.create_task(loop) for loop in loops]


def _settling(settings: Settings) -> float:
    """Seconds until every replica has decided on what one of them has read: agents tell all at once, pollers do not."""
    return 0.1 if settings.sources == ("agents",) else settings.sync_period + 0.1


def authority(host: str, port: int) -> str:
    """host:port as URLs and gRPC spell it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
