"""A small HTTP/1.1 server, plain or with TLS: no client, however slow, silent or wrong, delays another."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

from agent import sockets
from agent.addresses import Address
from agent.connection import Connection, Handler, Limits
from agent.tls import Tls
from plimsoll import logs

log = logs.get(__name__)

_PAUSE = (
    1.0  # seconds without accepting anybody when the machine is out of file descriptors or memory
)


class Server:
    """Listens on some addresses and asks one handler for every answer."""

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits | None = None,
        tls: Callable[[], Tls | None] = lambda: None,
    ) -> None:
        """`tls` is asked for each connection, so that certificates may change while connections stand."""
        self._handler = handler
        self._limits = limits or Limits()
        self._tls = tls
        self._listeners: list[tuple[socket.socket, asyncio.Task[None]]] = []
        self._clients: set[asyncio.Task[None]] = set()
        self._waiting: dict[
            asyncio.Task[None], None
        ] = {}  # those that have asked nothing yet, longest first

    async def listen(self, addresses: Sequence[Address]) -> list[Address]:
        """Begin to serve on all addresses, or on none. Returns the real ones: a port 0 has become one."""
        with contextlib.ExitStack() as undo:
            found = []
            for address in addresses:
                found.append(sockets.bind(address))
                undo.callback(found[-1].close)
            undo.pop_all()
        for listener in found:
            listener.setblocking(False)
            self._listeners.append((listener, asyncio.create_task(self._accept(listener))))
        return [sockets.bound(a, s) for a, s in zip(addresses, found, strict=True)]

    async def close(self) -> None:
        """Stop listening and end every connection."""
        tasks = [task for _, task in self._listeners] + list(self._clients)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener, _ in self._listeners:
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:
                log.error("cannot accept connections", reason=error.strerror)
                await asyncio.sleep(_PAUSE)
                continue
            if len(self._clients) >= self._limits.connections and not self._make_room():
                client.close()
                continue
            task = asyncio.create_task(self._serve(client))
            self._clients.add(task)
            self._waiting[task] = None
            task.add_done_callback(self._clients.discard)
            await asyncio.sleep(0)  # lets it begin, before another one is let in

    def _make_room(self) -> bool:
        """End the connection that has been silent longest, if one is: so many silent ones keep nobody out."""
        if not self._waiting:
            return False
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        oldest.cancel()
        return True

    async def _serve(self, client: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._talk(client, task)
        except (OSError, TimeoutError) as error:
            log.debug("connection lost", reason=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            log.debug("connection ended by the agent")
        finally:
            self._waiting.pop(task, None)

    async def _talk(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        def wait(waiting: bool) -> None:
            self._waiting.pop(task, None)
            if waiting:
                self._waiting[task] = None

        tls = self._tls()
        reader, writer = await _streams(client, tls, self._limits)
        try:
            if tls is not None and not tls.admits(writer.get_extra_info("peercert")):
                log.info("client certificate of nobody who is allowed")
                return
            await Connection(reader, writer, self._handler, self._limits, on_wait=wait).serve()
            if not writer.transport.get_write_buffer_size():
                writer.close()
        finally:
            # close() alone would wait for a client to take what it never will.
            if not writer.is_closing():
                writer.transport.abort()


async def _streams(
    client: socket.socket, tls: Tls | None, limits: Limits
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection's two directions, the TLS handshake done."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(
        lambda: protocol,
        client,
        ssl=None if tls is None else tls.context,
        ssl_handshake_timeout=None if tls is None else limits.receive,
        ssl_shutdown_timeout=None if tls is None else limits.farewell,
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
