"""Writes and finds Kubernetes events; a repeated event increments its count."""

import time
from collections.abc import Callable

import aiohttp

from plimsoll import logs, rfc3339
from sandbox.client.client import ApiError, Client
from sandbox.client.objects import EVENTS, Object

log = logs.get(__name__)

_REMEMBERED = 1000


class EventRecorder:
    """Writes events of one component. A failed write is logged and not raised."""

    def __init__(
        self, client: Client, component: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._counts: dict[tuple[str, str, str], tuple[str, int]] = {}

    async def record(
        self, about: Object, reason: str, message: str, *, kind: str = "Normal"
    ) -> None:
        """Write one event about an object; `kind` is Normal or Warning."""
        try:
            await self._record(about, reason, message, kind)
        except (ApiError, aiohttp.ClientError, OSError) as error:
            log.warning("event not written", reason=reason, error=str(error))

    async def _record(self, about: Object, reason: str, message: str, kind: str) -> None:
        meta = about["metadata"]
        namespace = meta.get("namespace", "default")
        identity = (meta["uid"], reason, message)
        name, count = self._counts.get(identity, (self._name(meta["name"]), 0))
        now = rfc3339.seconds(self._clock())
        try:
            if count:
                again = {"count": count + 1, "lastTimestamp": now}
                await self._client.patch(EVENTS, name, again, namespace)
        except ApiError as error:
            if error.status != 404:  # deleted meanwhile: create it again
                raise
            name, count = self._name(meta["name"]), 0
        if not count:
            event = self._event(about, namespace, name, now)
            await self._client.create(
                EVENTS, event | {"type": kind, "reason": reason, "message": message}
            )
        self._remember(identity, name, count + 1)

    def _name(self, about: str) -> str:
        return f"{about}.{int(self._clock() * 1e9):x}"

    def _remember(self, identity: tuple[str, str, str], name: str, count: int) -> None:
        self._counts.pop(identity, None)
        self._counts[identity] = (name, count)
        if len(self._counts) > _REMEMBERED:
            del self._counts[next(iter(self._counts))]

    def _event(self, about: Object, namespace: str, name: str, now: str) -> Object:
        meta = about["metadata"]
        involved = {
            "apiVersion": about.get("apiVersion", "v1"),
            "kind": about.get("kind", "Pod"),
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        }
        if "namespace" in meta:
            involved["namespace"] = meta["namespace"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


async def find(
    client: Client, namespace: str, name: str, reason: str, *, saying: str = ""
) -> Object | None:
    """Return the event of a reason about an object whose message contains `saying`; None if there is none.

    `saying` selects among events of one reason: FailedScheduling is also written if an extender does not answer.
    """
    for event in (await client.list(EVENTS, namespace)).items:
        about = event["involvedObject"]["name"], event["reason"]
        if about == (name, reason) and saying in event["message"]:
            return event
    return None
