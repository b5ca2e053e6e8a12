"""Polls the custom metrics API, as served by an adapter: the source of Telemetry Aware Scheduling.

Its response for one metric of all nodes is a MetricValueList (v1beta2 or v1beta1).
"""

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from evaluator.core.kube.resources import segment
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import UNREADABLE
from evaluator.core.sources.answer import (
    MeasurementTime,
    PolledAnswer,
    SourceError,
    moment,
    reading,
)
from plimsoll import quantity, rfc3339
from plimsoll.text import one_line

GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Supported versions, the preferred one first."""
_LARGEST = 64 << 20
"""Bytes of an adapter's response, which the API server does not limit; 5,000 nodes take 1 to 2 MB."""


class _Described(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct, rename="camel"):
    """A MetricValue. The window has two names and ends at the timestamp, which is the age of the value."""

    described_object: _Described = msgspec.field(default_factory=_Described)
    timestamp: str | None = None
    value: str | int | float | None = None
    window_seconds: int | None = None
    window: int | None = None


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_List).decode
_decode_item = msgspec.json.Decoder(_Item).decode
_unix_time = functools.lru_cache(maxsize=256)(
    rfc3339.parse
)  # the items of a response share a few timestamps


def parse_list(body: bytes, now: MeasurementTime) -> PolledAnswer:
    """Return readings by node. An invalid item is a flaw and does not hide the others.

    Raises SourceError if it is not such a list, or has no valid reading: an empty list does not mean that every node
    lacks the metric.
    """
    try:
        items = _decode_list(body).items or []
    except UNREADABLE as error:
        raise SourceError("malformed", f"not a list of metric values: {error}") from error
    samples: dict[str, list[tuple[float, float]]] = {}
    errors: dict[str, int] = {}
    for raw in items:
        try:
            node, value, at = _item(_decode_item(raw))
        except (*UNREADABLE, ValueError) as error:
            why = one_line(str(error), 200)
            errors[why] = errors.get(why, 0) + 1
        else:
            samples.setdefault(node, []).append((value, now.translate(at)))
    flaws = tuple(
        f"{count} of {len(items)} values cannot be read: {why}" for why, count in errors.items()
    )
    if not samples:
        raise SourceError("malformed" if flaws else "empty", "; ".join(flaws) or "it lists no node")
    return PolledAnswer({node: reading(found) for node, found in samples.items()}, flaws[:1])


def _item(item: _Item) -> tuple[str, float, float]:
    if not item.described_object.name:
        raise ValueError("it names no node")
    if item.value is None:
        raise ValueError("it has no value")
    if not item.timestamp:
        raise ValueError("it has no timestamp")
    if (item.window_seconds or item.window or 0) < 0:
        raise ValueError("a negative window")
    value = _number(item.value) if isinstance(item.value, str) else _double(item.value)
    return item.described_object.name, value, _unix_time(item.timestamp)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError("a number out of range") from error


def _number(text: str) -> float:
    """Return the number of a quantity; integers and thousandths, the usual forms, take an equally exact shortcut."""
    digits = text.removesuffix("m")
    if digits.isascii() and digits.isdigit() and len(digits) <= 15:
        return int(digits) / (1000 if text.endswith("m") else 1)
    return quantity.parse(text)


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    versions: list[_Version]


class Api(Protocol):
    """The API server's methods needed here. All raise KubeError."""

    async def read_group(self, group: str) -> dict[str, Any] | None:
        """Return an API group; None if it is not served."""
        ...

    async def get_raw(self, path: str, largest: int) -> tuple[bytes, str]:
        """Return the body of a response, at most `largest` bytes, and its Date."""
        ...


def path_of(version: str, metric: str) -> str:
    """Return the path of one metric of all nodes."""
    return f"/apis/{GROUP}/{version}/nodes/*/{segment(metric)}"


class CustomMetrics:
    """Fetches metrics by name.

    The API version is discovered before the first request, and again after a failure, but at most once in
    `rediscover` seconds: the adapter may have been replaced by one with another version.
    """

    def __init__(
        self,
        api: Api,
        *,
        rediscover: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._rediscover = rediscover
        self._clock = clock
        self._wall = wall
        self._version = ""
        self._discovered = float("-inf")
        self._discovering = asyncio.Lock()

    async def close(self) -> None:
        """Do nothing: the connection belongs to the API client."""

    async def fetch(self, metric: str) -> PolledAnswer:
        """Return a metric's readings by node. Raises SourceError."""
        version = await self._served()
        try:
            body, date = await self._api.get_raw(path_of(version, metric), _LARGEST)
            return parse_list(body, moment(date, here=self._clock(), wall=self._wall()))
        except KubeError as error:
            self._invalidate_version()
            if error.status == 404:
                raise SourceError("http_404", "404: the API has no such metric") from error
            raise _source_error(error) from error
        except SourceError:
            self._invalidate_version()
            raise

    def _invalidate_version(self) -> None:
        if self._clock() - self._discovered >= self._rediscover:
            self._version = ""

    async def _served(self) -> str:
        async with self._discovering:
            if not self._version:
                self._version = await self._discover()
                self._discovered = self._clock()
            return self._version

    async def _discover(self) -> str:
        try:
            found = await self._api.read_group(GROUP)
            group = None if found is None else msgspec.convert(found, _Group)
        except KubeError as error:
            raise _source_error(error) from error
        except msgspec.ValidationError as error:
            raise SourceError("malformed", f"not an API group: {error}") from error
        if group is None:
            raise SourceError(
                "no_api", "the cluster serves no custom metrics API: is an adapter installed?"
            )
        served = [version.version for version in group.versions]
        for version in VERSIONS:
            if version in served:
                return version
        known, supported = ", ".join(served) or "no version", " or ".join(VERSIONS)
        raise SourceError("no_version", f"{GROUP} is served as {known}, not as {supported}")


def _source_error(error: KubeError) -> SourceError:
    reason = f"http_{error.status}" if error.status else "unreachable"
    # Without the request, which names the metric: so that an error common to all metrics is logged once.
    _call, _, message = str(error).partition(": ")
    return SourceError(reason, message or str(error))
