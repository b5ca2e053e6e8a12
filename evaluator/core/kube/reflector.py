"""Keeps a copy of one kind of object: list in pages, watch with bookmarks, list again after a 410.

A later list replaces the copy, so deletions in between are found. Errors are retried with jittered backoff. The server ends
each watch after a jittered time: a kind without events is quiet, and its next watch shows that the copy is current; a watch
that is not ended in time is dead.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar

import msgspec

from evaluator.core.guard import Guard
from evaluator.core.isolation import uncounted
from evaluator.core.kube.client import WATCH_GRACE, Kube
from evaluator.core.kube.resources import APIResource
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import UNREADABLE
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.pace import Pace, sliced
from plimsoll.steps import Steps

log = logs.get(__name__)

T = TypeVar("T")

LONGEST_WATCH = 600.0
"""Seconds after which the server ends a watch, at most; at least half of it, as in client-go."""
_STEADY = 10.0
"""Seconds a watch must last to reset the backoff."""
_LONGEST_PAUSE = 60.0
"""Longest Retry-After that is respected, in seconds."""
_LONGEST_BACKOFF = 15.0
"""Longest delay between two attempts in seconds, without a Retry-After."""
_ENOUGH = 3
"""Consecutive failures before a new list: after a restore, etcd may not know the resourceVersion."""

UNSERVED_PAUSE = 1.5
"""Longest retry delay in seconds while the kind is not served: its CRD may be installed at any time."""
_PACE = Pace(rest=0)
"""Of decoding a page. A single policy may take as long as a slice."""


class Sink(Protocol[T]):
    """Stores the copy. `replacing` receives all objects, the other methods one change."""

    def replacing(self, objects: list[T]) -> Iterator[None]:
        """Replace all objects, step by step."""
        ...

    def put(self, obj: T) -> None:
        """Add or update an object."""
        ...

    def drop(self, obj: T) -> None:
        """Remove an object."""
        ...


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Version


class _ErrorStatus(msgspec.Struct):
    code: int = 500
    message: str = ""


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_version = msgspec.json.Decoder(_Versioned).decode
_decode_error = msgspec.json.Decoder(_ErrorStatus).decode


class Reflector(Generic[T]):
    """Feeds a sink from one resource until cancelled. Calls `on_activity` whenever the copy is known to be current.

    Calls `unserved` when the API server does not serve the resource, as without its CRD.
    """

    def __init__(
        self,
        kube: Kube,
        resource: APIResource,
        decode: Callable[[msgspec.Raw], T],
        sink: Sink[T],
        *,
        on_activity: Callable[[], None] = lambda: None,
        on_failure: Callable[[KubeError], None] = lambda _error: None,
        unserved: Callable[[], None] = lambda: None,
        longest_watch: float = LONGEST_WATCH,
        grace: float = WATCH_GRACE,
        unserved_pause: float = UNSERVED_PAUSE,
        rng: random.Random | None = None,
        pace: Pace = _PACE,
        guard: Guard | None = None,
    ) -> None:
        """`on_failure` receives each failed request; `guard` takes what the decoding of one object raises."""
        self._kube = kube
        self._resource = resource
        self._decode = decode
        self._sink = sink
        self._on_activity = on_activity
        self._on_failure = on_failure
        self._unserved = unserved
        self._unserved_pause = unserved_pause
        self._served = True
        self._pace = pace
        self._guard: Guard = guard or uncounted(f"watch of {resource.name}")
        self._longest_watch = longest_watch
        self._grace = grace
        self._steady = min(_STEADY, longest_watch / 4)
        self._rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)
        self._backoff = Backoff(self._rng.random, longest=_LONGEST_BACKOFF)
        self._version = ""
        """The resourceVersion to watch from; empty to list first."""
        self._failures = 0
        self._list_requests: list[asyncio.Future[None]] = []
        """Callers that wait for a list that has not started."""
        self._following: asyncio.Timeout | None = None

    def list_anew(self) -> asyncio.Future[None]:
        """Request a new list; the future is done when a list that started after this call is stored."""
        listed = asyncio.get_running_loop().create_future()
        self._list_requests.append(listed)
        if self._following is not None and not self._following.expired():
            self._following.reschedule(asyncio.get_running_loop().time())
        return listed

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if self._list_requests or not self._version:
                    await self._list()
                await self._follow()
            except KubeError as error:
                self._on_failure(error)
                await asyncio.sleep(
                    self._wait_unserved() if error.status == 404 else self._wait(error)
                )

    def _wait(self, error: KubeError) -> float:
        """Log a failure; returns the seconds until the retry."""
        self._failures += 1
        if error.gone or self._failures >= _ENOUGH:
            self._version = ""
        delay = max(self._backoff.next(), min(error.retry_after or 0.0, _LONGEST_PAUSE))
        level = log.info if error.gone else log.warning
        level(
            "watch of %s interrupted, trying again",
            self._resource.name,
            error=str(error),
            delay=round(delay, 2),
        )
        return delay

    def _wait_unserved(self) -> float:
        """Log once that the kind is not served; returns the seconds until the retry, without backoff."""
        self._version = ""
        if self._served:
            self._served = False
            log.error(
                "%s are not served by the API server, waiting for them",
                self._resource.name,
                reason=self._resource.unserved,
            )
        self._unserved()
        return self._unserved_pause * (0.5 + self._rng.random() / 2)

    async def _list(self) -> None:
        requests = len(self._list_requests)
        objects: list[T] = []
        version = ""
        async for page in self._kube.pages(self._resource):
            await asyncio.sleep(0)
            await sliced(self._decoding(page.items, objects), self._pace)
            version = page.resource_version
            del page
        for _ in self._sink.replacing(objects):
            await asyncio.sleep(0)
        self._version = version
        self._alive()
        for listed in self._list_requests[:requests]:
            if not listed.done():
                listed.set_result(None)
        del self._list_requests[:requests]

    def _decoding(self, items: Iterable[msgspec.Raw], objects: list[T]) -> Steps[None]:
        """Append the objects of one page."""
        for item in items:
            if (obj := self._read(item)) is not None:
                objects.append(obj)
            yield

    async def _follow(self) -> None:
        """Watch until a list is requested."""
        if self._list_requests:
            return
        try:
            async with asyncio.timeout(None) as self._following:
                await self._watch()
        except TimeoutError:
            log.info("list of %s requested", self._resource.name)
        finally:
            self._following = None

    async def _watch(self) -> None:
        """Apply events until the server ends the watch."""
        timeout = self._longest_watch * (1 + self._rng.random()) / 2
        before = self._version
        clock = asyncio.get_running_loop().time
        begin = clock()
        lines = self._kube.watch(
            self._resource, before, timeout=timeout, grace=self._grace, opened=self._alive
        )
        try:
            async for line in lines:
                # Updated at each event: an earlier version would take the copy back in time after a break.
                self._version = self._take(line)
                self._alive()
                self._backoff.reset()
        finally:
            # A watch that lasted counts as success, even without events.
            if steady := clock() - begin > self._steady:
                self._backoff.reset()
        if not steady and self._version == before:  # ended without an event
            await asyncio.sleep(self._backoff.next())

    def _alive(self) -> None:
        """The server has responded: the copy is current."""
        self._failures = 0
        if not self._served:
            self._served = True
            log.info("%s are served by the API server", self._resource.name)
        self._on_activity()

    def _take(self, line: bytes) -> str:
        try:
            event = _decode_event(line)
            if event.type == "ERROR":
                status = _decode_error(event.object)
                raise KubeError(status.code, status.message or f"an error {status.code}")
            version = _decode_version(event.object).metadata.resource_version
        except UNREADABLE as error:
            raise KubeError(0, f"unreadable event: {error}") from error
        if event.type != "BOOKMARK" and (obj := self._read(event.object)) is not None:
            if event.type == "DELETED":
                self._sink.drop(obj)
            else:
                self._sink.put(obj)
        return version

    def _read(self, raw: msgspec.Raw) -> T | None:
        """The decoded object; None for an unreadable one, which must not hide the others."""
        return self._guard.run(self._resource.name, partial(self._decoded, raw), None)

    def _decoded(self, raw: msgspec.Raw) -> T | None:
        try:
            return self._decode(raw)
        except UNREADABLE as error:
            kind = self._resource.name
            log.warning("skipped an unreadable object", kind=kind, error=str(error))
            return None
