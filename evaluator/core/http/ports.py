"""The ports: of kube-scheduler, whose routes several features share, of agents and operations, and those that features open."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from evaluator.core import tls
from evaluator.core.access.guard import HEALTH, DelegatedAccess
from evaluator.core.access.user import Attributes, NonResourceAttributes
from evaluator.core.http import ops, responses
from evaluator.core.http.responses import RouteGroup
from evaluator.core.kube.client import Kube
from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions, SchedulerPortOptions
from evaluator.core.sources.agents.calls import Pem
from evaluator.core.sources.agents.port_process import PortProcess, PortRestarts
from evaluator.core.sources.agents.server import AgentServer
from evaluator.core.tls import CertificateReloader
from plimsoll import logs
from plimsoll.html import assets
from plimsoll.http import networks
from plimsoll.http.addresses import Address
from plimsoll.http.limits import Limits
from plimsoll.http.routes import Routes, without_rebinding
from plimsoll.http.server import Server
from plimsoll.http.types import (
    Handler,
    RejectedRequestError,
    Request,
    Response,
    plain_rejection,
)

log = logs.get(__name__)

_GRACE = 5.0
"""Seconds for requests in flight to complete at shutdown."""
_DESCRIPTORS = 300
"""File descriptors reserved for the API server, sources, files and gRPC threads."""


class Port(NamedTuple):
    """An HTTP port. `urgent`: kube-scheduler waits for its answers, so decisions give way to them."""

    name: str
    server: Server
    number: int
    secured: bool
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class AgentPort:
    """The gRPC port of agents; `certificates`: None for plain text."""

    server: AgentServer
    number: int
    certificates: CertificateReloader[Pem] | None
    restarts: PortRestarts
    closed: Callable[[int], None]
    """Counts connections that were closed because they sent too much."""


class Ports:
    """The servers; they answer from `open()` to `close()`."""

    def __init__(
        self, bind_address: str, metrics: Metrics, ports: Sequence[Port], agents: AgentPort | None
    ) -> None:
        """The first of `ports` is that of operations. `agents`: None if agents are no source of readings."""
        self._bind_address = bind_address
        self._ports = tuple(ports)
        self._urgent = tuple(port.server for port in ports if port.urgent)
        self.agents = agents
        self._streaming = False
        for port in self._ports:
            metrics.connections.labels(port.name).set_function(partial(_connections, port.server))

    def busy(self) -> bool:
        """Return whether a request of kube-scheduler is in progress."""
        return any(server.busy for server in self._urgent)

    async def open(self) -> None:
        """Open all ports. Raises ListenError or OSError."""
        first, *others = self._ports
        await self._listen(first)
        await self._open_to_agents()
        for port in others:
            await self._listen(port)

    def retire(self) -> None:
        """Answer requests as before, but keep no connection after its next response."""
        for port in self._ports:
            port.server.retire()

    async def close(self) -> None:
        """Complete requests in flight and close all connections; the first port, which reports it, last."""
        if self._streaming and self.agents:
            await self.agents.server.stop()
        first, *others = self._ports
        await asyncio.gather(*(port.server.close(grace=_GRACE) for port in others))
        await first.server.close(grace=_GRACE)

    async def _listen(self, port: Port) -> None:
        (address,) = await port.server.listen([Address(self._bind_address, port.number)])
        log.info("listening", server=port.name, address=str(address), tls=port.secured)

    async def _open_to_agents(self) -> None:
        if (agents := self.agents) is None:
            return
        self._streaming = True
        port = PortProcess(
            str(Address(self._bind_address, agents.number)),
            agents.certificates.current if agents.certificates else None,
            restarts=agents.restarts,
            closed=agents.closed,
        )
        reserved = _DESCRIPTORS + sum(port.server.limit for port in self._ports)
        bound = await agents.server.start(port, reserved=reserved)
        address = str(Address(self._bind_address, bound))
        log.info("listening", server="agents", address=address, tls=agents.certificates is not None)


def _connections(server: Server) -> float:
    return float(server.connections)


class SchedulerPort:
    """Makes servers with the certificate, client names and limits of --port. Reads the certificate. Raises TlsError."""

    def __init__(self, options: SchedulerPortOptions, metrics: Metrics) -> None:
        self._options = options
        self._certificates = None
        if not options.unsafe:
            files = tls.Files(options.cert, options.key, options.cacert)
            self._certificates = tls.rotation(
                files,
                names=options.allowed_clients,
                on_change=metrics.reloaded("extender"),
                on_load=metrics.expires("extender"),
            )

    def port(self, groups: Sequence[RouteGroup]) -> Port:
        """Return the port with all of these routes; the first group refuses requests to unknown paths."""
        return self.opened("extender", self._options.port, groups)

    def opened(self, name: str, number: int, groups: Sequence[RouteGroup]) -> Port:
        """Return a port of kube-scheduler with another name and number."""
        shared = SharedRoutes(groups)
        server = Server(
            shared.routes.answer,
            check=shared.routes.check,
            refuse=shared.refuse,
            limits=self._options.limits,
            tls=self._certificates.current if self._certificates else _plain,
        )
        return Port(name, server, number, secured=not self._options.unsafe, urgent=True)


def _plain() -> None:
    """Return None: connections have no TLS."""


class SharedRoutes:
    """The routes of several groups. A request to a path of a group is refused in the words of that group."""

    def __init__(self, groups: Sequence[RouteGroup]) -> None:
        self._default = groups[0].refuse or plain_rejection
        self._refuse = {
            path: group.refuse for group in groups if group.refuse for path in group.routes
        }
        routes = {path: route for group in groups for path, route in group.routes.items()}
        self.routes = Routes(routes, self.refuse)

    def refuse(self, error: RejectedRequestError, request: Request | None) -> Response:
        """Return the error as the group of the path answers it."""
        refuse = self._refuse.get(request.path, self._default) if request else self._default
        return refuse(error, request)


_OPS_TLS = tls.Port("ops", "--cert", "or serve the ops port over plain HTTP (without --opsTls)")

ResourcePath = Callable[[Request], str | None]
"""Returns the one path of what a request shows, by which permissions name it; None for paths that are no page."""

_METRICS = "/metrics"
_PUBLIC = HEALTH | {_METRICS}
"""Paths of the operations port that are no pages. Without --opsAuthorize, NetworkPolicies restrict them."""
_PREFIX = "/plimsoll"
"""Stands before the path of a page in a permission, so that it is not mistaken for a path of the API server."""


def ops_port(
    options: CoreOptions,
    api: Kube,
    metrics: Metrics,
    handler: Handler,
    resource_path: ResourcePath,
) -> Port:
    """Return the operations port with this handler. `resource_path`: of what pages show. Reads the certificate with --opsTls.

    Raises TlsError.
    """
    made = ops_server(options, api, metrics, handler, resource_path)
    return Port("ops", made, options.ops_port, secured=options.ops_tls)


def ops_server(
    settings: CoreOptions,
    api: Kube,
    metrics: Metrics,
    handler: Handler,
    resource_path: ResourcePath,
    *,
    limits: Limits = ops.LIMITS,
) -> Server:
    """Return the server of that port: plain, over TLS with --opsTls, or for authorized users only with --opsAuthorize too.

    Without --opsAuthorize, pages are for clients on loopback and of --pagesFrom.
    """
    handler = without_rebinding(handler, ops_refusal, open_paths=HEALTH)
    if not settings.ops_authorize:
        handler = private_pages(handler, settings.pages_from)
    if not settings.ops_tls:
        return Server(handler, limits=limits)
    certificates = tls.rotation(
        tls.Files(settings.cert, settings.key, None),
        port=_OPS_TLS,
        on_change=metrics.reloaded(_OPS_TLS.name),
        on_load=metrics.expires(_OPS_TLS.name),
    )
    if settings.ops_authorize:
        guard = DelegatedAccess(api, metrics).guard(_OPS_TLS.name, front_proxy=False)
        handler = guard.protect(
            handler, partial(attributes_of, resource_path=resource_path), ops_refusal
        )
    return Server(handler, limits=limits, tls=certificates.current)


def private_pages(handler: Handler, admitted: networks.Networks) -> Handler:
    """Return a handler that answers probes and metrics to all clients, and pages to those on loopback and of some networks."""

    async def answer(request: Request) -> Response:
        peer = request.peer.address
        if (
            request.path in _PUBLIC
            or networks.is_loopback(peer)
            or networks.contains(admitted, peer)
        ):
            return await handler(request)
        address = networks.address_of(peer) or peer
        network = "".join(map(str, networks.parse(str(address)))) if address else "NETWORK"
        reason = (
            f"pages are for kubectl port-forward, not for {address}: if that is the API server's service proxy, open them with "
            f"--pagesFrom={network} (docs/pages.md#access)"
        )
        return ops_refusal(RejectedRequestError(HTTPStatus.FORBIDDEN, reason), request)

    return answer


def attributes_of(request: Request, *, resource_path: ResourcePath) -> Attributes | None:
    """Return the permission that a request to the operations port needs; None if any authenticated user has it.

    `get` on /metrics, which roles of Prometheus usually have, or on /plimsoll and the path of what the page shows: the same
    one for its HTML, its JSON, /explain and a name in the query.
    """
    if request.path.startswith(assets.FOLDER):
        return None
    if request.path == _METRICS:
        return NonResourceAttributes(path=_METRICS)
    return NonResourceAttributes(path=_PREFIX + (resource_path(request) or request.path))


def ops_refusal(refused: RejectedRequestError, _request: Request | None) -> Response:
    """Return why the operations port does not admit a request."""
    response = responses.error(str(refused), HTTPStatus(refused.status))
    return response.with_headers(dict(refused.headers))
