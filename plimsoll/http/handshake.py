"""Opens accepted sockets as streams: plain, or after a TLS handshake."""

import asyncio
import socket
import ssl
import traceback

from plimsoll.http.limits import Limits
from plimsoll.http.transport import Transport

_PLAIN_HTTP = (
    b"HTTP/1.0 400 Bad Request\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\n"
    b"The client sent an HTTP request to an HTTPS port: use https://\n"
)
_DISCARDED_READS = 16
"""Reads of up to 16 KiB from a rejected client."""


class PlainHttpError(ConnectionError):
    """A client sent a plain HTTP request to a TLS port."""


async def open_stream(
    client: socket.socket, context: ssl.SSLContext | None, limits: Limits
) -> Transport:
    """Return the stream of an accepted connection. The stream owns the socket; on an error the socket is closed.

    A TLS connection takes memory for TLS only once its client has sent something. Raises OSError or TimeoutError if the
    handshake fails, and PlainHttpError after answering a plain request on a TLS port.
    """
    try:
        # asyncio sets it too, but not on sockets made by socket.create_server, whose protocol is 0.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return await _plain(client)
        first = await _first_byte(client, limits.handshake)
    except BaseException:
        client.close()
        raise
    if first.isalpha():
        await _refuse_plain_http(await _plain(client), limits.linger)
        raise PlainHttpError("a plain HTTP request on a TLS port")
    return await _secured(client, context, limits.handshake, limits.linger)


async def _plain(client: socket.socket) -> Transport:
    stream = Transport()
    await asyncio.get_running_loop().connect_accepted_socket(lambda: stream, client)
    return stream


async def _secured(
    client: socket.socket, context: ssl.SSLContext, handshake: float, linger: float
) -> Transport:
    stream = Transport()
    try:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: stream,
            client,
            ssl=context,
            ssl_handshake_timeout=handshake,
            ssl_shutdown_timeout=linger,
        )
    except BaseException as error:
        # The error refers to frames that refer to it: 256 KiB would stay until the garbage collector runs.
        traceback.clear_frames(error.__traceback__)
        raise
    return stream


async def _first_byte(client: socket.socket, patience: float) -> bytes:
    """Wait for the first byte and return it without consuming it; empty if the client has closed its half.

    Raises TimeoutError unless it has arrived by then: it may be read later, when this process gets to it.
    """
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(client, _settle, readable)
    try:
        await asyncio.wait([readable], timeout=patience)
    finally:
        loop.remove_reader(client)
    try:
        return client.recv(1, socket.MSG_PEEK)
    except BlockingIOError as error:
        raise TimeoutError("no TLS handshake") from error


def _settle(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


async def _refuse_plain_http(stream: Transport, patience: float) -> None:
    """Reply, then read until the client closes: closing earlier could discard the reply."""
    try:
        async with asyncio.timeout(patience):
            await stream.send([_PLAIN_HTTP])
            stream.end_our_half()
            for _ in range(_DISCARDED_READS):
                if not await stream.some():
                    break
    finally:
        stream.abort()
