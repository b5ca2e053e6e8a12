"""The listener of the operations port as the flags configure it: plain, over TLS, or over TLS for authorized users only."""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from evaluator.core import tls
from evaluator.core.access.guard import HEALTH, DelegatedAccess
from evaluator.core.access.user import Attributes, NonResourceAttributes
from evaluator.core.http import responses
from evaluator.core.http.ops import LIMITS
from evaluator.core.http.ports import Port
from evaluator.core.kube.client import Kube
from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions
from plimsoll.html import assets
from plimsoll.http.routes import without_rebinding
from plimsoll.http.server import Server
from plimsoll.http.types import Handler, RejectedRequestError, Request, Response

_TLS = tls.Port("ops", "--cert", "or serve the ops port over plain HTTP (without --opsTls)")

ResourcePath = Callable[[Request], str | None]
"""Returns the one path of what a request shows, by which permissions name it; None for paths that are no page."""

METRICS = "/metrics"
PREFIX = "/plimsoll"
"""Stands before the path of a page in a permission, so that it is not mistaken for a path of the API server."""


def port(
    options: CoreOptions,
    api: Kube,
    metrics: Metrics,
    handler: Handler,
    resource_path: ResourcePath,
) -> Port:
    """Return the port of this handler. `resource_path`: of what pages show. Reads the certificate with --opsTls. Raises TlsError."""
    made = server(options, api, metrics, handler, resource_path)
    return Port("ops", made, options.ops_port, secured=options.ops_tls)


def server(
    settings: CoreOptions,
    api: Kube,
    metrics: Metrics,
    handler: Handler,
    resource_path: ResourcePath,
) -> Server:
    """Return the server of this handler. Reads the certificate with --opsTls. Raises TlsError."""
    handler = without_rebinding(handler, refuse, open_paths=HEALTH)
    if not settings.ops_tls:
        return Server(handler, limits=LIMITS)
    certificates = tls.rotation(
        tls.Files(settings.cert, settings.key, None),
        port=_TLS,
        on_change=metrics.reloaded(_TLS.name),
    )
    if settings.ops_authorize:
        guard = DelegatedAccess(api, metrics).guard(_TLS.name, front_proxy=False)
        handler = guard.protect(
            handler, partial(attributes_of, resource_path=resource_path), refuse
        )
    return Server(handler, limits=LIMITS, tls=certificates.current)


def attributes_of(request: Request, *, resource_path: ResourcePath) -> Attributes | None:
    """Return the permission that a request needs; None if any authenticated user has it.

    `get` on /metrics, which roles of Prometheus usually have, or on /plimsoll and the path of what the page shows: the same
    one for its HTML, its JSON, /explain and a name in the query.
    """
    if request.path.startswith(assets.FOLDER):
        return None
    if request.path == METRICS:
        return NonResourceAttributes(path=METRICS)
    return NonResourceAttributes(path=PREFIX + (resource_path(request) or request.path))


def refuse(refused: RejectedRequestError, _request: Request | None) -> Response:
    """Return why a request is not admitted."""
    response = responses.error(str(refused), HTTPStatus(refused.status))
    return response.with_headers(dict(refused.headers))
