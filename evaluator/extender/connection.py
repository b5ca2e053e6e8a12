"""HTTP connections whose requests are answered also when the client closed its half in the middle of a body.

Without this, aiohttp drops such a connection, and a scheduler's administrator learns nothing of what went wrong.
"""

import asyncio
import contextlib

from aiohttp import StreamReader, web

# Go keeps an idle connection for 90 s and does not replay a POST on one that we closed first.
_KEEP_ALIVE = 130.0


class CutShortError(Exception):
    """The rest of a body will never come: its client ended it, or sent what is no HTTP."""


class Connection(web.RequestHandler):
    """One client's connection."""

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=_KEEP_ALIVE,
            access_log=None,  # type: ignore[arg-type]  # None means none, as web.AppRunner's does
        )
        self._body: StreamReader | None = None
        self._is_read = False
        self._ended = False
        self._closing = False
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    def pass_over(self, body: StreamReader) -> None:
        """A request's body is not read by anybody (any more)."""
        self._body, self._is_read = body, False
        self._at_rest.set()
        self._check()
        if self._closing:
            super().close()

    def expect(self, body: StreamReader) -> None:
        """A request's body is read: that raises CutShortError if the rest will never come."""
        self._body, self._is_read = body, True
        self._at_rest.clear()
        self._check()

    def data_received(self, data: bytes) -> None:
        """As the base class does; but where it gives up on a body, whoever reads that body has to be told."""
        super().data_received(data)
        self._check()

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's protocol: True keeps our half open
        """The client sends no more. What it asked for is still answered; an idle connection ends."""
        idle = self._waiter is not None and not self._waiter.done()
        if idle or self.transport is None or self.transport.get_extra_info("sslcontext"):
            return False  # TLS connections have no halves
        self._ended = True
        self._check()
        self.close()  # after the answer
        return True

    def close(self) -> None:
        """End after the answer to the request at hand. The base class would not even read the rest of it."""
        self._closing = True
        if not self._is_read or self._body is None or self._body.is_eof():
            super().close()

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Let the request at hand be read; the base class stops reading at once, and so would drop it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._at_rest.wait()
        await super().shutdown(timeout)

    def _check(self) -> None:
        # Nothing can follow on a body that is not whole, except the base class's own note that the rest is no HTTP.
        if self._body is None or self._body.is_eof() or not (self._ended or self._messages):
            return
        if self._is_read:
            self._body.set_exception(CutShortError())
        self._body.feed_eof()  # or the base class would wait for the rest after the answer
        self.close()


class Site(web.TCPSite):
    """A listening port whose connections are of this kind."""

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await web.BaseSite.start(self)
        loop, server = asyncio.get_running_loop(), self._runner.server
        assert server is not None
        self._server = await loop.create_server(
            lambda: Connection(server, loop),
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=1024,
        )
