"""What requests ask for: a metric, selectors, and the attributes to authorize.

Errors are RejectedRequestError, with a message for the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import unquote

from evaluator.core.access.user import Attributes, ResourceAttributes
from evaluator.features.custom_metrics import discovery, formats
from evaluator.features.custom_metrics.formats import GROUP, NAMESPACES, ROOT, MetricRequest
from plimsoll.http.types import RejectedRequestError, Request
from plimsoll.labels.selector import Labels, Requirement, parse_selector

METHODS = ("GET", "HEAD")

_USUAL = 4
"""Keys and values of a usual label selector."""


@dataclass(frozen=True, slots=True)
class Selectors:
    """The selectors of a request. Readings have no labels, so `of_readings` matches either all of them or none."""

    of_objects: Sequence[Requirement] = ()
    of_readings: Sequence[Requirement] = ()

    @property
    def terms(self) -> int:
        """How many comparisons of strings an object takes, in units of what a usual selector does; 1 or more."""
        values = sum(1 + len(requirement.values) for requirement in self.of_objects)
        return max(1, values // _USUAL)

    @property
    def match_readings(self) -> bool:
        """Whether `of_readings` matches."""
        return matches(self.of_readings, {})


def matches(selector: Sequence[Requirement], labels: Labels) -> bool:
    """Return whether labels match all requirements."""
    return all(requirement.matches(labels) for requirement in selector)


def metric_request(path: str) -> MetricRequest:
    """Return the request for a metric that an undecoded path makes. Raises RejectedRequestError for any other path."""
    if path.startswith(f"{ROOT}/"):
        try:
            below = path[len(ROOT) + 1 :].split("/")
            request = formats.parse_path([unquote(segment, errors="strict") for segment in below])
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
        verb="get" if request.method in METHODS else request.method.lower(),
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
