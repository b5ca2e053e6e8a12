"""Polls the custom metrics API, as served by an adapter: the source of Telemetry Aware Scheduling."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from evaluator.core.kube.resources import segment
from evaluator.core.kube.transport import KubeError
from evaluator.core.sources.formats import metric_value_list
from evaluator.core.sources.formats.answer import PolledAnswer, SourceError, moment

GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Supported versions, the preferred one first."""
_LARGEST = 64 << 20
"""Bytes of an adapter's response, which the API server does not limit; 5,000 nodes take 1 to 2 MB."""


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
            return metric_value_list.parse(
                body, moment(date, here=self._clock(), wall=self._wall())
            )
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
