"""Requests, errors and lists of custom.metrics.k8s.io. Pure: paths, selectors and numbers in, bytes out.

Paths as in custom-metrics-apiserver:pkg/apiserver/installer; attributes as kube-apiserver's RequestInfo resolves them, so
that both authorize the same. Lists: v1beta2 and v1beta1 of
https://github.com/kubernetes/metrics/blob/master/pkg/apis/custom_metrics.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import msgspec

from plimsoll import quantity, rfc3339
from plimsoll.labels.selector import Labels, Requirement

GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""The preferred one first."""
ROOT = f"/apis/{GROUP}"

EVERY = "*"
"""The name that requests all objects."""
NODES, PODS, NAMESPACES = "nodes", "pods", "namespaces"
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
_USUAL = 4
"""Keys and values of a usual label selector."""
_ITEMS = 200
"""Items in one piece: 50 KB, in half a millisecond."""
_OBJECTS = 1 << 14
"""Objects whose beginning is kept: 5 MB."""


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A request for one metric of one object, or of all objects of a resource.

    `resource` may be qualified by a group: `deployments.apps`. `name` is EVERY for all objects. `namespace` is empty in
    paths without one. For a metric of a namespace itself, `resource` is NAMESPACES and `name` the namespace.
    """

    version: str
    resource: str
    name: str
    metric: str
    namespace: str = ""

    @property
    def every(self) -> bool:
        """Whether all objects are requested."""
        return self.name == EVERY

    @property
    def described(self) -> str:
        """The object or objects in words, as in custom-metrics-apiserver's errors: `nodes` or `nodes n1`."""
        return self.resource if self.every else f"{self.resource} {self.name}"


def parse_path(segments: Sequence[str]) -> MetricRequest | None:
    """Return the request that a path makes for a metric; None for any other path. `segments`: decoded, below the group's root."""
    if not all(segments):
        return None
    match segments:
        case [version, *_] if version not in VERSIONS:
            return None
        case [version, resource, name, metric] if resource != NAMESPACES:
            return MetricRequest(version, _unqualified(resource), name, metric)
        case [version, "namespaces", namespace, "metrics", metric]:
            return MetricRequest(version, NAMESPACES, namespace, metric, namespace)
        case [version, "namespaces", namespace, resource, name, metric]:
            return MetricRequest(version, _unqualified(resource), name, metric, namespace)
        case _:
            return None


def _unqualified(resource: str) -> str:
    """Return a resource of the core group without the dot that a client may append, as in `nodes.`."""
    return resource.removesuffix(".")


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


def failure(code: int, message: str) -> bytes:
    """Return a Status for an error response."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, "Unknown"),
        "code": code,
    }
    return msgspec.json.encode(status) + b"\n"


@lru_cache(_OBJECTS)
def described(kind: str, name: str, namespace: str = "") -> str:
    """Return the beginning of an item: `describedObject` with the object's kind of the core group, name and namespace."""
    where = {"namespace": namespace} if namespace else {}
    reference = {"kind": kind, **where, "name": name, "apiVersion": "/v1"}
    return f'{{"describedObject":{msgspec.json.encode(reference).decode()},'


def value_list(
    version: str,
    metric: str,
    objects: Iterator[str],
    seconds: Sequence[int],
    values: Sequence[float],
) -> Iterator[bytes]:
    """Yield a list of finite `values` measured at these Unix `seconds`, one for each of `objects` (from `described`)."""
    yield (
        f'{{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/{version}","metadata":{{}},"items":['
    ).encode()
    names = _metric(version, metric)
    at = {
        second: f'{names}"timestamp":"{rfc3339.seconds(second)}","value":"'
        for second in set(seconds)
    }
    items = map(_item, objects, map(at.__getitem__, seconds), map(quantity.text, values))
    for begin in range(0, len(values), _ITEMS):
        some = ",".join(islice(items, _ITEMS))
        yield (f",{some}" if begin else some).encode()
    yield b"]}\n"


def _item(described_object: str, metric_and_time: str, value: str) -> str:
    return f'{described_object}{metric_and_time}{value}"}}'


def _metric(version: str, metric: str) -> str:
    name = msgspec.json.encode(metric).decode()
    if version == "v1beta1":
        return f'"metricName":{name},"selector":null,'
    return f'"metric":{{"name":{name},"selector":null}},'
