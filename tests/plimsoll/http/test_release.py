"""Ended connections are freed at once, without the garbage collector, which runs rarely in the evaluator."""

import asyncio
import contextlib
import gc
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus

import pytest

from plimsoll.http.limits import Limits
from plimsoll.http.tls import Tls
from plimsoll.http.transport import Transport
from plimsoll.http.types import Request, Response
from tests.patience import PATIENCE, patient

LIMITS = Limits(handshake=0.2, header=0.2, body=0.2, idle=0.2, linger=0.2, body_bytes=1 << 20)
TIMES = 3


async def echo(request: Request) -> Response:
    return Response(HTTPStatus.OK, request.path.encode())


def held() -> list[object]:
    """Streams and TLS protocols that this test made, reachable or not; those of clients use StreamReaders."""
    return [found for found in gc.get_objects() if _is_a_servers(found)]


def _is_a_servers(found: object) -> bool:
    return isinstance(found, Transport) or (isinstance(found, SSLProtocol) and found._server_side)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Disable garbage collection meanwhile. Objects of earlier tests are no longer among those of the collector."""
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


async def asks_and_closes(site, tls) -> None:
    client = await site.connect(tls)
    assert (await client.get("/")).status == 200
    client.writer.close()
    with contextlib.suppress(OSError):
        await client.writer.wait_closed()


async def asks_and_resets(site, tls) -> None:
    client = await site.connect(tls)
    assert (await client.get("/")).status == 200
    client.vanish()


async def asks_and_falls_silent(site, tls) -> None:
    client = await site.connect(tls)
    assert (await client.get("/")).status == 200
    assert await client.ended()


async def says_nothing(site, tls) -> None:
    client = await site.connect(tls)
    assert await client.ended()


async def is_refused(site, tls) -> None:
    client = await site.connect(tls)
    await client.say(b"nonsense\r\n\r\n")
    assert (await client.reply()).status == 400
    client.vanish()


async def sends_half_a_header(site, tls) -> None:
    client = await site.connect(tls)
    await client.say(b"GET / HTTP/1.1\r\n")
    assert (await client.reply()).status == 408
    client.vanish()


async def sends_half_a_body(site, tls) -> None:
    client = await site.connect(tls)
    await client.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + b"x" * 300000
    )
    assert (await client.reply()).status == 408
    client.vanish()


async def resets_within_a_body(site, tls) -> None:
    client = await site.connect(tls)
    await client.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + b"x" * 300000
    )
    client.vanish()


async def announces_too_much(site, tls) -> None:
    client = await site.connect(tls)
    await client.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 300000
    )
    assert (await client.reply()).status == 413
    client.vanish()


async def sends_too_many_fields(site, tls) -> None:
    client = await site.connect(tls)
    await client.say(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 101 + b"\r\n")
    assert (await client.reply()).status == 431
    client.vanish()


async def sends_too_many_trailers(site, tls) -> None:
    client = await site.connect(tls)
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    await client.say(chunked + b"0\r\n" + b"a: b\r\n" * 101 + b"\r\n")
    assert (await client.reply()).status == 431
    client.vanish()


async def sends_no_hello(site, _tls) -> None:
    client = await site.connect()
    assert await client.ended()


async def sends_nonsense_for_a_hello(site, _tls) -> None:
    client = await site.connect()
    await client.say(b"\x16\x03\x01\x00\x05hello")
    await client.rest()


async def sends_half_a_hello(site, _tls) -> None:
    client = await site.connect()
    await client.say(b"\x16\x03\x01\x02\x00\x01")
    await client.rest()


async def resets_within_its_hello(site, _tls) -> None:
    client = await site.connect()
    await client.say(b"\x16\x03\x01\x02\x00\x01")
    client.vanish()


async def trusts_another_ca(site, _tls) -> None:
    with pytest.raises(ssl.SSLError):
        await site.connect(ssl.create_default_context())


async def speaks_plain_http(site, _tls) -> None:
    client = await site.connect()
    await client.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await client.rest()


PLAIN = [
    asks_and_closes,
    asks_and_resets,
    asks_and_falls_silent,
    says_nothing,
    is_refused,
    sends_half_a_header,
    sends_half_a_body,
    resets_within_a_body,
    announces_too_much,
    sends_too_many_fields,
    sends_too_many_trailers,
]
HANDSHAKES = [
    sends_no_hello,
    sends_nonsense_for_a_hello,
    sends_half_a_hello,
    resets_within_its_hello,
    trusts_another_ca,
    speaks_plain_http,
]


def limits_of(behave) -> Limits:
    """Return limits that end only those connections that are to time out."""
    if behave in HANDSHAKES:
        return LIMITS
    if behave in {says_nothing, sends_half_a_header}:
        return replace(LIMITS, handshake=PATIENCE)
    return patient(LIMITS)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("behave", PLAIN)
async def test_ended_plain_connection_is_freed(serve, until, behave) -> None:
    site = await serve(echo, limits_of(behave))
    for _ in range(TIMES):
        await behave(site, None)
    await until(lambda: not held())


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("behave", [*PLAIN, *HANDSHAKES])
async def test_ended_tls_connection_is_freed(serve, until, authority, behave) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    site = await serve(echo, limits_of(behave), tls=lambda: Tls(context))
    for _ in range(TIMES):
        await behave(site, authority.client())
    await until(lambda: not held())


@pytest.mark.usefixtures("uncollected")
async def test_tls_connection_without_the_required_certificate_is_freed(
    serve, until, authority
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    site = await serve(echo, patient(LIMITS), tls=lambda: Tls(context))
    for _ in range(TIMES):
        client = await site.connect(authority.client())
        await client.rest()
    await until(lambda: not held())


@pytest.mark.usefixtures("uncollected")
async def test_displaced_connections_are_freed(serve, until, authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    site = await serve(echo, Limits(connections=2, linger=0.2), tls=lambda: Tls(context))
    for number in range(8):
        client = await site.connect(authority.client() if number % 2 else None)
        if number == 7:
            assert (await client.get("/")).status == 200
    assert site.server.connections <= 2
    await asyncio.gather(site.server.close())
    await until(lambda: not held())
