"""Streams to every replica of the evaluator. Each replica answers the scheduler by itself, so each needs this node's readings.

Replicas are the addresses that the evaluator's name resolves to, looked up periodically; in a cluster, the name of a
headless Service.
"""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from plimsoll import logs
from plimsoll.http.addresses import Address

log = logs.get(__name__)

_LOOK = 5.0
"""Seconds between two lookups. Cluster DNS answers live for 5 to 30."""


class Stream(Protocol):
    """A stream to one replica."""

    async def run(self) -> None:
        """Stream until cancelled."""
        ...


Resolve = Callable[[Address], Awaitable[frozenset[Address]]]
Open = Callable[[Address, Callable[[bool], None]], Stream]


class StreamFanout:
    """Keeps one stream per replica. `on_state` is called with whether the streams to all replicas are up."""

    def __init__(
        self,
        address: Address,
        open_stream: Open,
        *,
        on_state: Callable[[bool], None] = lambda _up: None,
        resolve: Resolve | None = None,
        look: float = _LOOK,
    ) -> None:
        self._address = address
        self._open = open_stream
        self._on_state = on_state
        self._resolve = resolve or resolved
        self._look = look
        self._streams: dict[Address, asyncio.Task[None]] = {}
        self._up: dict[Address, bool] = {}

    async def run(self) -> None:
        """Stream until cancelled."""
        try:
            while True:
                await self._look_up()
                if not self._streams:
                    await asyncio.sleep(self._look)
                    continue
                done, _ = await asyncio.wait(
                    self._streams.values(),
                    timeout=self._look,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    await task  # a stream never ends by itself: this raises its error
        finally:
            await self._close(tuple(self._streams))

    async def _look_up(self) -> None:
        try:
            addresses = await self._resolve(self._address)
        except OSError as error:
            # Existing streams are kept: DNS may fail while they work.
            log.warning(
                "evaluator's name not resolved; retrying",
                address=str(self._address),
                error=error.strerror or str(error),
            )
            addresses = frozenset(self._streams)
        await self._close(self._streams.keys() - addresses)
        for address in sorted(addresses - self._streams.keys(), key=str):
            log.info("evaluator address added", address=str(address))
            self._up[address] = False
            stream = self._open(address, functools.partial(self._on_stream_state, address))
            self._streams[address] = asyncio.create_task(stream.run())
        self._report_state()

    async def _close(self, addresses: Iterable[Address]) -> None:
        for address in tuple(addresses):
            log.info("evaluator address removed", address=str(address))
            del self._up[address]
            task = self._streams.pop(address)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _on_stream_state(self, address: Address, up: bool) -> None:
        if address in self._up:
            self._up[address] = up
            self._report_state()

    def _report_state(self) -> None:
        self._on_state(bool(self._up) and all(self._up.values()))


async def resolved(address: Address) -> frozenset[Address]:
    """Return all addresses of a name, of one family: in a dual-stack cluster each replica has one of either. Raises OSError."""
    infos = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM
    )
    by_family = {
        family: frozenset(
            Address(str(where[0]), address.port) for kind, *_, where in infos if kind == family
        )
        for family in (socket.AF_INET, socket.AF_INET6)
    }
    return by_family[socket.AF_INET] or by_family[socket.AF_INET6]
