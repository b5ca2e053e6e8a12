"""An informer: keeps a copy of all objects of one resource by list and watch; missed changes are reported after a relist."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import aiohttp

from plimsoll import logs
from sandbox.client.client import ApiError, Client
from sandbox.client.objects import Object, ObjectKind, key_of

log = logs.get(__name__)

OnChange = Callable[[Object | None, Object | None], None]
"""Called with the old and the new object; None if it was created or deleted."""

_PAUSE = 0.5  # seconds between two attempts while the API server does not respond


class Informer:
    """The objects of one resource by `namespace/name`, updated while `run()` runs."""

    def __init__(self, client: Client, resource: ObjectKind, on_change: OnChange) -> None:
        self.objects: dict[str, Object] = {}
        self.synced = asyncio.Event()
        self._client = client
        self._resource = resource
        self._on_change = on_change
        self._version = ""

    async def run(self) -> None:
        """List and watch until cancelled; start again whenever the server ends the watch."""
        while True:
            try:
                if not self._version:
                    await self._relist()
                await self._follow()
            except ApiError as error:
                self._version = ""
                if error.status != 410:
                    log.warning("watch failed", resource=self._resource.plural, error=str(error))
                    await asyncio.sleep(_PAUSE)
            except (aiohttp.ClientError, OSError) as error:
                log.debug("watch lost", resource=self._resource.plural, error=str(error))
                await asyncio.sleep(_PAUSE)

    async def _relist(self) -> None:
        listing = await self._client.list(self._resource)
        listed = {key_of(obj): obj for obj in listing.items}
        for key in [key for key in self.objects if key not in listed]:
            self._forget(key)
        for key, obj in listed.items():
            self._put(key, obj)
        self._version = listing.version
        self.synced.set()

    async def _follow(self) -> None:
        async for kind, obj in self._client.watch(self._resource, self._version):
            self._version = obj["metadata"]["resourceVersion"]
            if kind == "DELETED":
                self._forget(key_of(obj))
            elif kind != "BOOKMARK":
                self._put(key_of(obj), obj)

    def _put(self, key: str, obj: Object) -> None:
        old = self.objects.get(key)
        if old is not None and old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._forget(key)
            old = None
        self.objects[key] = obj
        if old is None or old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            self._on_change(old, obj)

    def _forget(self, key: str) -> None:
        if (old := self.objects.pop(key, None)) is not None:
            self._on_change(old, None)


@contextlib.asynccontextmanager
async def following(*mirrors: Informer) -> AsyncIterator[None]:
    """Run informers for the duration of a block, which starts once all have listed. An informer's error ends the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(mirror.run()) for mirror in mirrors]
        try:
            for mirror in mirrors:
                await mirror.synced.wait()
            yield
        finally:
            for task in tasks:
                task.cancel()
