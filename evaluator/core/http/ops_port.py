"""The listener of the operations port as the flags configure it: plain, over TLS, or over TLS for authorized users only."""

from http import HTTPStatus

from evaluator.core.access.core.attributes import Attributes, NonResourceAttributes
from evaluator.core.access.delegation import DelegatedAccess
from evaluator.core.http import responses
from evaluator.core.http.ops import LIMITS
from evaluator.core.http.ports import Port
from evaluator.core.kube.client import Kube
from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions
from evaluator.core.tls import server as tls
from plimsoll.html import assets
from plimsoll.http.server import Server
from plimsoll.http.types import Handler, RejectedRequestError, Request, Response

_TLS = tls.Port("ops", "--cert", "or serve the ops port over plain HTTP (without --opsTls)")

METRICS = "/metrics"
PREFIX = "/plimsoll"
"""Stands before the path of a page in a permission, so that it is not mistaken for a path of the API server."""


def port(options: CoreOptions, api: Kube, metrics: Metrics, handler: Handler) -> Port:
    """Return the port of this handler. Reads the certificate with --opsTls. Raises TlsError."""
    made = server(options, api, metrics, handler)
    return Port("ops", made, options.ops_port, secured=options.ops_tls)


def server(settings: CoreOptions, api: Kube, metrics: Metrics, handler: Handler) -> Server:
    """Return the server of this handler. Reads the certificate with --opsTls. Raises TlsError."""
    if not settings.ops_tls:
        return Server(handler, limits=LIMITS)
    certificates = tls.rotation(
        tls.Files(settings.cert, settings.key, None),
        port=_TLS,
        on_change=metrics.reloaded(_TLS.name),
    )
    if settings.ops_authorize:
        guard = DelegatedAccess(api, metrics).guard(_TLS.name, front_proxy=False)
        handler = guard.protect(handler, attributes_of, refuse)
    return Server(handler, limits=LIMITS, tls=certificates.current)


def attributes_of(request: Request) -> Attributes | None:
    """Return the permission that a request needs; None if any authenticated user has it.

    `get` on /metrics, which roles of Prometheus usually have, or on /plimsoll and the path of the page.
    """
    if request.path.startswith(assets.FOLDER):
        return None
    path = request.path if request.path == METRICS else f"{PREFIX}{request.path}"
    return NonResourceAttributes(path=path)


def refuse(refused: RejectedRequestError, _request: Request | None) -> Response:
    """Return why a request is not admitted."""
    response = responses.error(str(refused), HTTPStatus(refused.status))
    return response.with_headers(dict(refused.headers))
