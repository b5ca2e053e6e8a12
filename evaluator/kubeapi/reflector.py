"""Keeps a copy of one kind of object: list in pages, watch with bookmarks, list again when the server says 410.

A list after the first is compared with what is known, so that what was deleted meanwhile is found. Errors are waited out
with jittered back-off; watches end after a jittered time, so that a fleet of clients does not re-connect as one. A watch
on which nothing comes, not even a bookmark, may be dead without anybody having said so, and is opened again.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from evaluator.kubeapi.client import APIResource, Kube
from evaluator.kubeapi.transport import KubeError
from evaluator.model.decode import UNREADABLE
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

T = TypeVar("T")

SILENCE = 120.0
"""Seconds without a word that end a watch. API servers send a bookmark each minute, by and large."""
_STEADY = 10.0
"""Seconds that a watch has to last before its end is met with the shortest delay again."""
_LONGEST_PAUSE = 60.0
"""Seconds for which a server that is too busy is obeyed at most."""
_ENOUGH = 3
"""Failures in a row after which the version is not believed in any more: a restored etcd may not have come that far."""

UNSERVED_PAUSE = 1.5
"""Seconds until the next try at most, while the API server does not serve the kind: a CRD may be installed at any moment."""
_SLICE = 0.001
"""Seconds of reading objects after which others have a turn. Objects differ: of a policy, one alone may take as long."""


class Sink(Protocol[T]):
    """Where the copy is kept. `replacing` is the whole truth at one moment, the other two are one change."""

    def replacing(self, objects: list[T]) -> Iterator[None]:
        """These are all objects there are; they are taken in step by step."""
        ...

    def put(self, obj: T) -> None:
        """This object is new or has changed."""
        ...

    def drop(self, obj: T) -> None:
        """This object is gone."""
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
    """Feeds a sink from one resource until it is cancelled. `heard` is called whenever the copy is known to be true.

    `unserved` is called when the API server answers that it does not serve the resource, as without its CRD.
    """

    def __init__(
        self,
        kube: Kube,
        resource: APIResource,
        decode: Callable[[msgspec.Raw], T],
        sink: Sink[T],
        *,
        heard: Callable[[], None] = lambda: None,
        unserved: Callable[[], None] = lambda: None,
        silence: float = SILENCE,
        unserved_pause: float = UNSERVED_PAUSE,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._kube = kube
        self._resource = resource
        self._decode = decode
        self._sink = sink
        self._heard = heard
        self._unserved = unserved
        self._unserved_pause = unserved_pause
        self._served = True
        self._clock = clock
        self._silence = silence
        self._steady = min(_STEADY, silence / 2)
        self._rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)
        self._backoff = Backoff(self._rng.random)
        self._version = ""
        """Where to go on watching; empty: list first."""
        self._failures = 0
        self._asked: list[asyncio.Future[None]] = []
        """Who waits for a list that has yet to begin."""
        self._following: asyncio.Timeout | None = None

    def list_anew(self) -> asyncio.Future[None]:
        """Have all objects listed once more: done when a list that began after this call was taken in."""
        listed = asyncio.get_running_loop().create_future()
        self._asked.append(listed)
        if self._following is not None and not self._following.expired():
            self._following.reschedule(asyncio.get_running_loop().time())
        return listed

    async def run(self) -> None:
        """List and watch for ever."""
        while True:
            try:
                if self._asked or not self._version:
                    await self._list()
                await self._follow()
            except KubeError as error:
                await asyncio.sleep(
                    self._wait_unserved() if error.status == 404 else self._wait(error)
                )

    def _wait(self, error: KubeError) -> float:
        """Log a failure; returns the seconds until the next try."""
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
        """Log once that the kind is not served; returns the seconds until the next try, which grow no longer."""
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
        asked = len(self._asked)
        objects: list[T] = []
        more, version = await self._page("", objects)
        while more:
            more, version = await self._page(more, objects)
        for _ in self._sink.replacing(objects):
            await asyncio.sleep(0)
        self._version = version
        self._alive()
        for listed in self._asked[:asked]:
            if not listed.done():
                listed.set_result(None)
        del self._asked[:asked]

    async def _page(self, more: str, objects: list[T]) -> tuple[str, str]:
        """Add the objects of one page; where the next begins, and the version of the list.

        The page is megabytes of JSON: it is read in turns with everybody else, and gone before the next is asked for.
        """
        page = await self._kube.list_page(self._resource, more)
        turn_over = -math.inf
        for item in page.items:
            if self._clock() >= turn_over:
                await asyncio.sleep(0)
                turn_over = self._clock() + _SLICE
            if (obj := self._read(item)) is not None:
                objects.append(obj)
        return page.more, page.resource_version

    async def _follow(self) -> None:
        """Watch for as long as nobody wants a list."""
        if self._asked:
            return
        try:
            async with asyncio.timeout(None) as self._following:
                await self._watch()
        except TimeoutError:
            log.info("list of %s asked for", self._resource.name)
        finally:
            self._following = None

    async def _watch(self) -> None:
        """Follow events until the server ends the watch."""
        timeout, before = 300 * (1 + self._rng.random()), self._version
        clock = asyncio.get_running_loop().time
        begin = clock()
        lines = self._kube.watch(
            self._resource, before, timeout=timeout, silence=self._silence, opened=self._alive
        )
        try:
            async for line in lines:
                # Kept at each event: after a break, an earlier one would take the copy back in time.
                self._version = self._take(line)
                self._alive()
                self._backoff.reset()
        finally:
            # One that stood for a while was none too many, even if there was nothing to say.
            if steady := clock() - begin > self._steady:
                self._backoff.reset()
        if not steady and self._version == before:  # ended before it said anything
            await asyncio.sleep(self._backoff.next())

    def _alive(self) -> None:
        """The server has said where it stands: the copy is true, and news will come."""
        self._failures = 0
        if not self._served:
            self._served = True
            log.info("%s are served by the API server", self._resource.name)
        self._heard()

    def _take(self, line: bytes) -> str:
        try:
            event = _decode_event(line)
            if event.type == "ERROR":
                status = _decode_error(event.object)
                raise KubeError(status.code, status.message or f"an error {status.code}")
            version = _decode_version(event.object).metadata.resource_version
        except UNREADABLE as error:
            raise KubeError(0, f"an event that cannot be read: {error}") from error
        if event.type != "BOOKMARK" and (obj := self._read(event.object)) is not None:
            if event.type == "DELETED":
                self._sink.drop(obj)
            else:
                self._sink.put(obj)
        return version

    def _read(self, raw: msgspec.Raw) -> T | None:
        """An object; None for one that cannot be read, which must not hide the others."""
        try:
            return self._decode(raw)
        except UNREADABLE as error:
            kind = self._resource.name
            log.warning("an object that cannot be read is passed over", kind=kind, error=str(error))
            return None
        except Exception:
            log.exception("an object that cannot be read is passed over", kind=self._resource.name)
            return None
