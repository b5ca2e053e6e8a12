"""The listeners: extender, scorers, agents, operations, gang webhook and custom metrics."""

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial

from evaluator.config import Settings
from evaluator.core.metrics import Metrics
from evaluator.core.readings.merged import AGENTS
from evaluator.core.sources.agents import port as agents_port
from evaluator.core.sources.agents.server import AgentServer
from evaluator.core.sources.agents.tls import Files as AgentFiles
from evaluator.core.tls import server as tls
from evaluator.features.extender.policies import PolicyVerbs
from evaluator.features.gangs import webhook_port as gang_webhook
from evaluator.features.scorers.routes import ScorerRoutes
from plimsoll import logs
from plimsoll.http.addresses import Address
from plimsoll.http.server import Server

log = logs.get(__name__)

_GRACE = 5.0
"""Seconds for requests in flight to complete at shutdown."""
_DESCRIPTORS = 300
"""File descriptors reserved for the API server, sources, files and gRPC threads."""


class Listeners:
    """The servers; they answer from `open()` to `close()`."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        *,
        extender: PolicyVerbs,
        scorers: Mapping[str, ScorerRoutes],
        operations: Server,
        agents: AgentServer,
        custom_metrics: Server | None = None,
    ) -> None:
        """`scorers`: those with a port of their own. `custom_metrics`: None if it is off. Reads the certificates. Raises TlsError."""
        self._settings = settings
        self._agents = agents if AGENTS in settings.sources else None
        self._streaming = False
        files = tls.Files(settings.cert, settings.key, settings.cacert)
        rotation = (
            None
            if settings.unsafe
            else tls.rotation(
                files, names=settings.allowed_clients, on_change=metrics.reloaded("extender")
            )
        )
        self._certificates = (
            agents_port.certificates(
                settings,
                AgentFiles(settings.cert, settings.key, settings.cacert),
                on_change=metrics.reloaded("agents"),
            )
            if self._agents and not settings.agents_plain
            else None
        )
        self._ops = operations
        make_server = partial(
            Server, limits=settings.limits, tls=rotation.current if rotation else lambda: None
        )
        self._extender = make_server(extender.answer, check=extender.check, refuse=extender.refuse)
        self._scorers = {
            name: make_server(scoring.answer, check=scoring.check, refuse=scoring.refuse)
            for name, scoring in scorers.items()
        }
        self._gangs = gang_webhook.server(settings, metrics)
        self._custom_metrics = custom_metrics
        for name, server in self._named():
            metrics.connections.labels(name).set_function(partial(_connections, server))

    @property
    def busy(self) -> bool:
        """Whether a request of kube-scheduler is in progress."""
        return any(server.busy for server in (self._extender, *self._scorers.values()))

    def _named(self) -> Iterator[tuple[str, Server]]:
        yield "ops", self._ops
        yield "extender", self._extender
        for name, server in self._scorers.items():
            yield f"scorer-{name}", server
        if self._gangs:
            yield "gangs", self._gangs
        if self._custom_metrics:
            yield "custom-metrics", self._custom_metrics

    async def open(self) -> None:
        """Open all ports. Raises ListenError or OSError."""
        settings = self._settings
        await self._listen("ops", self._ops, settings.ops_port, secured=settings.ops_tls)
        await self._open_to_agents()
        await self._listen("extender", self._extender, settings.port, secured=not settings.unsafe)
        for name, server in self._scorers.items():
            port = settings.ports_of_scorers[name]
            await self._listen(f"scorer-{name}", server, port, secured=not settings.unsafe)
        if self._gangs:
            await self._listen("gangs", self._gangs, settings.gang_webhook_port, secured=True)
        if self._custom_metrics:
            port = settings.custom_metrics_port
            await self._listen("custom-metrics", self._custom_metrics, port, secured=True)

    def retire(self) -> None:
        """Answer requests as before, but keep no connection after its next response."""
        for _, server in self._named():
            server.retire()

    async def close(self) -> None:
        """Complete requests in flight and close all connections; the ops port, which reports it, last."""
        if self._streaming and self._agents:
            await self._agents.stop()
        others = [server for _, server in self._named() if server is not self._ops]
        await asyncio.gather(*(server.close(grace=_GRACE) for server in others))
        await self._ops.close(grace=_GRACE)

    async def _listen(self, name: str, server: Server, port: int, *, secured: bool) -> None:
        (address,) = await server.listen([Address(self._settings.bind_address, port)])
        log.info("listening", server=name, address=str(address), tls=secured)

    async def _open_to_agents(self) -> None:
        if self._agents is None:
            return
        host, port = self._settings.bind_address, self._settings.agent_port
        secured = self._certificates
        credentials = secured.credentials() if secured else None
        self._streaming = True
        reserved = _DESCRIPTORS + sum(server.limit for _, server in self._named())
        bound = await self._agents.start(
            str(Address(host or "::", port)), credentials=credentials, reserved=reserved
        )
        log.info(
            "listening",
            server="agents",
            address=str(Address(host, bound)),
            tls=secured is not None,
        )


def _connections(server: Server) -> float:
    return float(server.connections)
