"""kube-scheduler's port: routes of several features behind one certificate, and further ports with the same one."""

from collections.abc import Sequence

from evaluator.core.http.ports import Port
from evaluator.core.metrics import Metrics
from evaluator.core.options import SchedulerPortOptions
from evaluator.core.protocol.http import RouteGroup
from evaluator.core.tls import server as tls
from plimsoll.http.routes import Routes
from plimsoll.http.server import Server
from plimsoll.http.types import RejectedRequestError, Request, Response, plain_rejection


class SchedulerPort:
    """Makes servers with the certificate, client names and limits of --port. Reads the certificate. Raises TlsError."""

    def __init__(self, options: SchedulerPortOptions, metrics: Metrics) -> None:
        self._options = options
        self._certificates = None
        if not options.unsafe:
            files = tls.Files(options.cert, options.key, options.cacert)
            self._certificates = tls.rotation(
                files, names=options.allowed_clients, on_change=metrics.reloaded("extender")
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
