"""A small HTTP/1.1 server, plain or with TLS: slow, idle or malformed clients do not delay others."""

import asyncio
import contextlib
import errno
import math
import socket
from collections.abc import Callable, Sequence
from functools import partial

from plimsoll import logs
from plimsoll.http import addresses as sockets
from plimsoll.http.addresses import Address
from plimsoll.http.body import BodyReader
from plimsoll.http.connection import Connection
from plimsoll.http.handshake import open_stream
from plimsoll.http.limits import Limits, RequestRates
from plimsoll.http.pool import ConnectionPool, ConnectionState
from plimsoll.http.tls import Tls
from plimsoll.http.types import Check, Handler, Peer, Refuse, always_right, plain_rejection
from plimsoll.process import garbage

log = logs.get(__name__)

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE = 1.0
"""Seconds to stop accepting when the machine is out of file descriptors or memory."""
_BEGUN = 8
"""Passes of the event loop within which a request that arrived with its connection is read."""


class Server:
    """Listens on some addresses and passes requests to one handler.

    `check`: rejects requests by their header, before the body is read. `tls`: called for each connection, so that certificates
    may change while connections are open. `refuse`: makes the response to rejected requests.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        check: Check = always_right,
        refuse: Refuse = plain_rejection,
        limits: Limits | None = None,
        tls: Callable[[], Tls | None] = lambda: None,
    ) -> None:
        self._handler = handler
        self._check = check
        self._refuse = refuse
        self._limits = limits or Limits()
        self._tls = tls
        self._bodies = BodyReader(self._limits)
        self._listeners: list[tuple[socket.socket, asyncio.Task[None]]] = []
        self._rates = RequestRates(self._limits.requests)
        self._pool = ConnectionPool(self._limits.connections, sending=self._limits.sending)
        self._retiring = False
        self._ending = False
        self._drains = 0
        self._complained = -math.inf

    @property
    def limit(self) -> int:
        """Maximum number of connections."""
        return self._limits.connections

    @property
    def connections(self) -> int:
        """Current number of connections."""
        return len(self._pool.tasks)

    @property
    def busy(self) -> bool:
        """Whether a request is being received or answered."""
        return self._pool.busy

    async def listen(self, addresses: Sequence[Address]) -> list[Address]:
        """Begin to serve on all addresses, or on none. Returns the bound addresses, with port 0 resolved.

        Raises ListenError.
        """
        with contextlib.ExitStack() as undo:
            bound = []
            for address in addresses:
                bound.append(sockets.bind(address))
                undo.callback(bound[-1].close)
            undo.pop_all()
        for listener in bound:
            listener.setblocking(False)
            self._listeners.append((listener, asyncio.create_task(self._accept(listener))))
        return [sockets.bound(a, s) for a, s in zip(addresses, bound, strict=True)]

    def drain(self) -> None:
        """End the connections opened so far: idle ones at once, others after their response. New ones are still accepted.

        Needed when clients' certificates that were valid at the handshake may not be valid any more.
        """
        self._drains += 1
        self._pool.end_idle()

    def retire(self) -> None:
        """Close each connection after its next response, with `Connection: close`. New connections are still accepted.

        Clients then connect elsewhere, and none sends a request on a connection that `close` ends.
        """
        self._retiring = True

    async def close(self, *, grace: float = 0.0) -> None:
        """Stop listening and end every connection; requests in progress get `grace` seconds."""
        self._ending = True
        listening = [task for _, task in self._listeners]
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        for listener, _ in self._listeners:
            listener.close()
        self._pool.end_idle()
        if grace and self._pool.tasks:
            await asyncio.wait(list(self._pool.tasks), timeout=grace)
        rest = list(self._pool.tasks)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(listener)
            except OSError as error:
                await _recover(error)
                continue
            full = self._pool.full
            if not self._pool.has_capacity():
                client.close()
                self._complain(loop.time())
                continue
            host = str(address[0])
            self._pool.admit(asyncio.create_task(self._serve(client, host)), peer=host)
            # When full, the next connection may end this one: begin with a request that has arrived.
            for _ in range(_BEGUN if full else 1):
                await asyncio.sleep(0)

    def _complain(self, now: float) -> None:
        """Log at most once a second, so that a flood of connections does not flood the log."""
        if now - self._complained >= 1.0:
            self._complained = now
            log.warning("connection refused: all are busy", limit=self._limits.connections)

    async def _serve(self, client: socket.socket, host: str) -> None:
        try:
            await self._talk(client, host)
        except (OSError, TimeoutError) as error:
            log.debug("connection lost", reason=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            log.debug("connection ended from here")
        finally:
            garbage.OF_THIS_PROCESS.ended()

    async def _talk(self, client: socket.socket, host: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        tls, drains = self._tls(), self._drains
        stream = await open_stream(client, tls.context if tls else None, self._limits)
        try:
            if drains != self._drains:
                return  # drained during the handshake
            certificate = stream.peer_certificate
            reject_reason = tls.reject_reason_for(certificate) if tls else ""
            if certificate and not reject_reason:
                self._pool.mark_verified(task)
            await Connection(
                stream,
                self._handler,
                self._refuse,
                self._limits,
                self._bodies,
                peer=Peer(host, certificate),
                check=self._check,
                rejected=reject_reason,
                rate=self._rates.connection(host),
                set_state=partial(self._pool.set_state, task),
                ending=lambda: self._ending or self._retiring or drains != self._drains,
            ).serve()
            self._pool.set_state(task, ConnectionState.IDLE)
            await stream.close(self._limits.linger)
        finally:
            stream.abort()


async def _recover(error: OSError) -> None:
    """Stop accepting for a while if the machine is out of a resource; other errors concern one connection only."""
    if error.errno in _EXHAUSTED:
        log.error("cannot accept connections", reason=error.strerror)
        await asyncio.sleep(_PAUSE)
    else:
        log.debug("connection lost before it was accepted", reason=error.strerror)
        await asyncio.sleep(0)
