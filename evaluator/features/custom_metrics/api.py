"""The routes of the custom metrics API: health, discovery and metrics; what requests ask for, and what to authorize."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import unquote

from prometheus_client import CollectorRegistry, Counter

from evaluator.core.access.user import Attributes, ResourceAttributes
from evaluator.features.custom_metrics import discovery, formats
from evaluator.features.custom_metrics.discovery import Discovery
from evaluator.features.custom_metrics.formats import (
    GROUP,
    NAMESPACES,
    NODES,
    PODS,
    ROOT,
    MetricRequest,
    Selectors,
    parse_path,
)
from evaluator.features.custom_metrics.lists import MetricLists, MetricNotFoundError
from plimsoll.fairlock import TooManyWaitError
from plimsoll.http.types import Parts, RejectedRequestError, Request, Response, preference
from plimsoll.labels.selector import Requirement, parse_selector

_METHODS = ("GET", "HEAD")
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_RETRY = (("retry-after", "1"),)


class ApiMetrics:
    """The metrics of the custom metrics API."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.custom_metrics_requests = Counter(
            "plimsoll_custom_metrics_requests",
            "Requests to the custom metrics API by resource and HTTP status.",
            ["resource", "code"],
            registry=registry,
        )
        self.custom_metrics_left_out = Counter(
            "plimsoll_custom_metrics_left_out_values",
            "Values left out of responses of the custom metrics API: a quantity cannot be NaN or infinite.",
            registry=registry,
        )


class CustomMetricsApi:
    """Answers requests from memory. The caller authenticates and authorizes them.

    `served` returns the names of the metrics, sorted, the same object while they are the same; None while policies are
    unknown. `missing` returns the inputs without which metrics cannot be answered, `unready` why no requests should come here.
    """

    def __init__(
        self,
        lists: MetricLists,
        metrics: ApiMetrics,
        *,
        served: Callable[[], Sequence[str] | None],
        missing: Callable[[], Sequence[str]],
        unready: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._lists = lists
        self._requests = metrics.custom_metrics_requests
        self._served = served
        self._missing = missing
        self._unready = unready
        self._discovery = Discovery(())

    async def answer(self, request: Request) -> Response:
        """Return the response to an admitted request."""
        try:
            response = await self._answer(request)
        except RejectedRequestError as refused:
            return self.refuse(refused, request)
        self._count(request, response.status)
        return response

    def refuse(self, refused: RejectedRequestError, request: Request | None) -> Response:
        """Return a rejection as a Status object, which every Kubernetes client understands."""
        self._count(request, refused.status)
        body = formats.failure(int(refused.status), str(refused))
        return Response(refused.status, body, discovery.JSON, refused.headers)

    def _count(self, request: Request | None, code: HTTPStatus) -> None:
        self._requests.labels(_kind(request.path if request else ""), str(int(code))).inc()

    async def _answer(self, request: Request) -> Response:
        if request.method not in _METHODS:
            allowed = (("allow", ", ".join(_METHODS)),)
            raise RejectedRequestError(
                HTTPStatus.METHOD_NOT_ALLOWED, "only GET is supported", headers=allowed
            )
        if request.path in _HEALTH:
            return self._health(request.path)
        if discovery.is_discovery(request.path):
            return self._document(request)
        return await self._metric(request)

    def _health(self, path: str) -> Response:
        if path == "/readyz" and (waiting := [*self._missing(), *self._unready()]):
            text = f"waiting for {', '.join(waiting)}\n"
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, text.encode())
        return Response(HTTPStatus.OK, b"ok\n")

    def _document(self, request: Request) -> Response:
        served = self._served()
        if served is None:  # kube-apiserver keeps its last answer
            raise _unavailable("the metrics of policies are not known yet")
        if served is not self._discovery.metrics:
            self._discovery = Discovery(served)
        document = self._discovery.find(request.path, preference(request.headers, "accept"))
        headers = (("etag", document.etag), ("vary", "Accept"))
        if discovery.unchanged(document, request.headers.get("if-none-match", "")):
            return Response(HTTPStatus.NOT_MODIFIED, b"", document.content_type, headers)
        return Response(HTTPStatus.OK, document.body, document.content_type, headers)

    async def _metric(self, request: Request) -> Response:
        wanted, chosen = metric_request(request.path), selectors(request)
        if waiting := self._missing():
            raise _unavailable(f"waiting for {', '.join(waiting)}")
        try:
            if wanted.metric not in (self._served() or ()):
                raise MetricNotFoundError(wanted, "no policy names it, nor does --serveMetrics")
            pieces = await self._lists.answer(wanted, chosen)
        except MetricNotFoundError as error:
            raise RejectedRequestError(HTTPStatus.NOT_FOUND, str(error)) from error
        except TooManyWaitError as error:
            raise RejectedRequestError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests wait for lists: try again",
                headers=_RETRY,
            ) from error
        return Response(HTTPStatus.OK, Parts(sum(map(len, pieces)), pieces), discovery.JSON)


def _kind(path: str) -> str:
    """Return a path's kind for the metrics."""
    if path in _HEALTH:
        return "health"
    if discovery.is_discovery(path):
        return "discovery"
    try:
        resource = metric_request(path).resource
    except RejectedRequestError:
        return "other"
    return resource if resource in (NODES, PODS) else "other"


def _unavailable(message: str) -> RejectedRequestError:
    return RejectedRequestError(HTTPStatus.SERVICE_UNAVAILABLE, message, headers=_RETRY)


def metric_request(path: str) -> MetricRequest:
    """Return the request for a metric that an undecoded path makes. Raises RejectedRequestError for any other path."""
    if path.startswith(f"{ROOT}/"):
        try:
            below = path[len(ROOT) + 1 :].split("/")
            request = parse_path([unquote(segment, errors="strict") for segment in below])
        except UnicodeDecodeError as error:
            raise RejectedRequestError(
                HTTPStatus.BAD_REQUEST, "a path that is not UTF-8"
            ) from error
        if request is not None:
            return request
    raise RejectedRequestError(
        HTTPStatus.NOT_FOUND, "the server could not find the requested resource"
    )


def attributes_of(request: Request) -> Attributes | None:
    """Return what to authorize, as kube-apiserver's RequestInfo resolves the path; None for discovery.

    Raises RejectedRequestError for a path that is not served.
    """
    if discovery.is_discovery(request.path):
        return None
    wanted = metric_request(request.path)
    of_namespace = wanted.resource == NAMESPACES
    return ResourceAttributes(
        group=GROUP,
        version=wanted.version,
        resource="metrics" if of_namespace else wanted.resource,
        subresource="" if of_namespace else wanted.metric,
        namespace=wanted.namespace,
        name=wanted.metric if of_namespace else wanted.name,
        verb="get" if request.method in _METHODS else request.method.lower(),
    )


def selectors(request: Request) -> Selectors:
    """Return the selectors of a request; unknown parameters are ignored, as API servers do. Raises RejectedRequestError."""
    if any(request.query.get("fieldSelector", ())):
        raise RejectedRequestError(
            HTTPStatus.BAD_REQUEST, "fieldSelector is not supported: use labelSelector"
        )
    return Selectors(_selector(request, "labelSelector"), _selector(request, "metricLabelSelector"))


def _selector(request: Request, parameter: str) -> Sequence[Requirement]:
    given = request.query.get(parameter, ("",))
    try:
        return _parsed(given[0])
    except ValueError as error:
        raise RejectedRequestError(HTTPStatus.BAD_REQUEST, f"{parameter}: {error}") from error


@lru_cache(256)
def _parsed(text: str) -> Sequence[Requirement]:
    return tuple(parse_selector(text))
