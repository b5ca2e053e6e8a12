"""The HTTP server over real sockets: client errors, and no harm to other clients."""

import asyncio
import contextlib
import errno
import os
import socket
import time
import weakref
from http import HTTPStatus

import pytest

from plimsoll.http.addresses import Address, ListenError
from plimsoll.http.limits import Limits, RequestRate
from plimsoll.http.server import Server
from plimsoll.http.types import Parts, Request, Response
from tests.patience import PATIENCE


async def echo(request: Request) -> Response:
    return Response(
        HTTPStatus.OK, f"{request.method} {request.path} {dict(request.query)}".encode()
    )


async def test_requests_on_one_connection_are_answered_in_turn(serve) -> None:
    client = await (await serve(echo)).connect()
    for number in range(3):
        reply = await client.get(f"/{number}?a=1&a=2&b")
        assert reply.status == 200
        assert reply.body == f"GET /{number} {{'a': ['1', '2'], 'b': ['']}}".encode()
        assert reply.headers["date"].endswith("GMT")


async def test_handler_sees_the_peers_address(serve) -> None:
    async def answer(request: Request) -> Response:
        return Response(
            HTTPStatus.OK, f"{request.peer.address} {request.peer.certificate}".encode()
        )

    assert (await (await (await serve(answer)).connect()).get("/")).body == b"127.0.0.1 None"


async def test_drain_ends_connections_after_their_response_and_accepts_new_ones(serve) -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Response:
        if request.path == "/slow":
            begun.set()
            await free.wait()
        return Response(HTTPStatus.OK, b"ok")

    site = await serve(answer)
    idle, busy = await site.connect(), await site.connect()
    assert (await idle.get("/")).status == 200
    await busy.say(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.wait_for(begun.wait(), PATIENCE)
    site.server.drain()
    assert await idle.ended()
    free.set()
    assert (await busy.reply()).headers["connection"] == "close"
    assert await busy.ended()
    client = await site.connect()
    assert "connection" not in (await client.get("/")).headers


async def test_pipelined_requests_are_answered(serve) -> None:
    client = await (await serve(echo)).connect()
    await client.say(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"/1" in (await client.reply()).body
    assert b"/2" in (await client.reply()).body


async def test_head_has_the_headers_of_get_and_no_body(serve) -> None:
    client = await (await serve(echo)).connect()
    head = await client.get("/x", method="HEAD")
    assert int(head.headers["content-length"]) > 0
    assert (await client.get("/y")).body.startswith(b"GET /y"), "no body was in the way"


@pytest.mark.parametrize(
    "request_", ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]
)
async def test_connection_close_is_respected(serve, request_: str) -> None:
    client = await (await serve(echo)).connect()
    await client.say(request_.encode())
    assert (await client.reply()).status == 200
    assert await asyncio.wait_for(client.ended(), PATIENCE)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nBad Header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /" + b"x" * 40000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000, 413),
    ],
)
async def test_malformed_request_gets_an_error_and_ends_the_connection(
    serve, raw: bytes, status: int
) -> None:
    site = await serve(echo, Limits(body_bytes=65536))
    client = await site.connect()
    await client.say(raw)
    assert (await asyncio.wait_for(client.reply(), PATIENCE)).status == status
    # Bytes sent after the connection ended may cause a reset.
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(client.ended(), PATIENCE)
    assert (await (await site.connect()).get("/")).status == 200


async def test_small_body_is_discarded(serve) -> None:
    client = await (await serve(echo)).connect()
    await client.say(
        b"GET /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    assert (await client.reply()).status == 200
    assert (await client.get("/2")).status == 200


@pytest.mark.parametrize("chunked", [False, True])
async def test_rate_of_bodies_is_limited_after_the_first_64_kib(serve, chunked: bool) -> None:
    client = await (await serve(echo, Limits(bodies_rate=1 << 20))).connect()
    now = asyncio.get_running_loop().time
    body = bytes(320 << 10)
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    begun = now()
    await client.say(b"POST / HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n%b" % (length, framed))
    assert (await client.reply()).status == 200
    assert now() - begun > 0.18, "three waits of 62.5 ms"


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 1", b"Content-Length: 99999999999", b"Transfer-Encoding: chunked"]
)
@pytest.mark.parametrize("path", [b"/metrics", b"/nothing"])
async def test_port_without_bodies_rejects_each_before_it_is_sent(
    serve, framing: bytes, path: bytes
) -> None:
    client = await (await serve(echo, Limits(body_bytes=0))).connect()
    await client.say(b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % (path, framing))
    reply = await client.reply()
    assert (reply.status, reply.headers["connection"]) == (413, "close")
    assert b"body" in reply.body


async def test_requests_on_kept_connections_of_one_address_are_rated(serve) -> None:
    site = await serve(echo, Limits(requests=RequestRate(connection=1e6, address=50.0, burst=4)))
    clients = [await site.connect() for _ in range(2)]
    begun = time.monotonic()
    for _ in range(12):
        for client in clients:
            assert (await client.get("/")).status == 200
    # Two are first requests, four the burst; the last two tokens are for requests that are not sent.
    assert time.monotonic() - begun >= (24 - 2 - 4) / 50.0 * 0.99


async def test_new_connections_do_not_wait_for_the_rate_of_their_address(serve) -> None:
    rate = RequestRate(connection=1e-6, address=1e-6, burst=1)
    site = await serve(echo, Limits(requests=rate))
    for _ in range(3):
        kept = await site.connect()
        assert (await kept.get("/")).status == 200
        await kept.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")  # not read for days
    assert (await (await site.connect()).get("/")).status == 200


async def test_empty_body_is_none(serve) -> None:
    client = await (await serve(echo, Limits(body_bytes=0))).connect()
    for _ in range(2):
        assert (await client.get("/", "Content-Length: 0")).status == 200


async def test_expect_continue_is_answered(serve) -> None:
    client = await (await serve(echo)).connect()
    await client.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    )
    assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
    await client.say(b"ok")
    assert (await client.reply()).status == 200


async def test_client_that_disconnects_midway_does_no_harm(serve) -> None:
    site = await serve(echo)
    for raw in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"):
        client = await site.connect()
        await client.say(raw)
        client.writer.close()
    assert (await (await site.connect()).get("/")).status == 200


async def test_failing_handler_is_a_500_and_the_server_continues(serve) -> None:
    async def fail(request: Request) -> Response:
        if request.path == "/fail":
            raise ZeroDivisionError
        return await echo(request)

    client = await (await serve(fail)).connect()
    assert (await client.get("/fail")).status == 500
    assert (await client.get("/")).status == 200


async def test_half_a_request_times_out(serve) -> None:
    site = await serve(echo, Limits(header=0.05))
    client = await site.connect_with(b"GET / HTTP/1.1\r\nHost:")
    assert (await asyncio.wait_for(client.reply(), PATIENCE)).status == 408
    assert await asyncio.wait_for(client.ended(), PATIENCE)


async def test_silent_client_times_out(serve) -> None:
    client = await (await serve(echo, Limits(idle=0.05))).connect()
    assert await asyncio.wait_for(client.ended(), PATIENCE)
    again = await (await serve(echo, Limits(idle=1.0))).connect()
    assert (await again.get("/")).status == 200
    assert await asyncio.wait_for(again.ended(), PATIENCE)


async def test_client_that_does_not_read_times_out(serve) -> None:
    asked = asyncio.Event()

    async def much(_: Request) -> Response:
        asked.set()
        return Response(HTTPStatus.OK, bytes(64 << 20))

    site = await serve(much, Limits(send=0.1))
    client = await site.connect()
    await client.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.wait_for(asked.wait(), PATIENCE)
    await asyncio.wait(site.server._pool.tasks, timeout=PATIENCE)
    assert not site.server._pool.tasks
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(client.reply(), PATIENCE)


async def test_slow_clients_delay_no_other(serve) -> None:
    never = asyncio.Event()

    async def handler(request: Request) -> Response:
        if request.path == "/stuck":
            await never.wait()
        return await echo(request)

    site = await serve(handler)
    for raw in (b"", b"GE", b"GET /stuck HTTP/1.1\r\nHost: x\r\n\r\n"):
        for _ in range(10):
            await (await site.connect()).say(raw)
    assert (await asyncio.wait_for((await site.connect()).get("/"), PATIENCE)).status == 200


async def test_connection_idle_longest_is_closed_at_the_limit(serve) -> None:
    site = await serve(echo, Limits(connections=2))
    first, second = await site.connect(), await site.connect()
    for client in (first, second):
        assert (await client.get("/")).status == 200
    third = await site.connect()
    assert (await third.get("/")).status == 200
    assert await asyncio.wait_for(first.ended(), PATIENCE)
    assert (await second.get("/")).status == 200


async def test_connections_being_served_are_not_closed_for_new_ones(serve) -> None:
    go_on, asked = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        asked.set()
        await go_on.wait()
        return await echo(request)

    site = await serve(slow, Limits(connections=1))
    busy = await site.connect()
    await busy.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.wait_for(asked.wait(), PATIENCE)
    assert await asyncio.wait_for((await site.connect()).ended(), PATIENCE)
    go_on.set()
    assert (await busy.reply()).status == 200


def test_rejected_flood_does_not_flood_the_log(capsys) -> None:
    server = Server(echo)
    for tenth in range(25):
        server._complain(100.0 + tenth / 10)
    out, _ = capsys.readouterr()
    assert out.count("all are busy") == 3


class Failing(socket.socket):
    """A listening socket whose first attempts to accept fail."""

    def fail(self, *numbers: int) -> None:
        self.numbers = [*numbers]

    def accept(self):
        if self.numbers:
            number = self.numbers.pop()
            raise OSError(number, os.strerror(number))
        return super().accept()


@contextlib.asynccontextmanager
async def accepting(*numbers: int):
    """A server that first meets these errors; returns its address."""
    with Failing() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        listener.fail(*numbers)
        server = Server(echo)
        task = asyncio.create_task(server._accept(listener))
        yield listener.getsockname()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.close()


async def answered(address) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


async def test_only_exhausted_descriptors_or_memory_pause_accepting() -> None:
    of_one_connection = [errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENETDOWN] * 5
    exhausted = [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM]
    async with contextlib.AsyncExitStack() as stack:
        pausing = [
            asyncio.create_task(answered(await stack.enter_async_context(accepting(number))))
            for number in exhausted
        ]
        at_once = await stack.enter_async_context(accepting(*of_one_connection))
        assert b"200 OK" in await asyncio.wait_for(answered(at_once), PATIENCE)
        assert not any(task.done() for task in pausing)
        for task in pausing:
            assert b"200 OK" in await asyncio.wait_for(task, PATIENCE)


async def test_silent_connections_do_not_block_new_ones(serve) -> None:
    site = await serve(echo, Limits(connections=4))
    for _ in range(20):
        await (await site.connect()).say(b"GET / HT")
    assert (await asyncio.wait_for((await site.connect()).get("/"), PATIENCE)).status == 200


async def test_unread_responses_do_not_block_new_connections(serve) -> None:
    asked: asyncio.Queue[None] = asyncio.Queue()

    async def much(request: Request) -> Response:
        if request.path == "/":
            return await echo(request)
        asked.put_nowait(None)
        return Response(HTTPStatus.OK, bytes(64 << 20))

    site = await serve(much, Limits(connections=3))
    for _ in range(3):
        client = await site.connect()
        client.writer.transport.pause_reading()
        await client.say(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(asked.get(), PATIENCE)
    assert (await asyncio.wait_for((await site.connect()).get("/"), PATIENCE)).status == 200


async def test_unread_responses_are_kept_for_a_bounded_number_of_clients(serve) -> None:
    held: weakref.WeakSet[Held] = weakref.WeakSet()

    async def much(_: Request) -> Response:
        page = Held([bytes(32 << 20)])
        held.add(page)
        return Response(HTTPStatus.OK, Parts(32 << 20, page))

    site = await serve(much, Limits(sending=2))
    for _ in range(6):
        client = await site.connect()
        client.writer.transport.pause_reading()
        await client.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    reader = await site.connect()
    assert len((await asyncio.wait_for(reader.get("/"), PATIENCE)).body) == 32 << 20
    assert len(held) <= 3
    assert site.server.connections <= 3


class Held(list[bytes]):
    """A body whose end is recognizable."""

    __hash__ = object.__hash__


async def test_endless_requests_of_one_client_do_not_block_others(serve) -> None:
    busy = asyncio.Event()

    async def answer(request: Request) -> Response:
        busy.set()
        return await echo(request)

    site = await serve(answer, Limits(connections=1))
    greedy = await site.connect()

    async def ask_without_end() -> None:
        while not greedy.writer.transport.is_closing():
            await greedy.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
            await asyncio.sleep(0)

    greed = asyncio.gather(ask_without_end(), greedy.rest())
    await asyncio.wait_for(busy.wait(), PATIENCE)
    assert (await asyncio.wait_for((await site.connect()).get("/"), PATIENCE)).status == 200
    await asyncio.wait_for(greed, PATIENCE)


async def test_closing_ends_every_connection(serve) -> None:
    site = await serve(echo)
    idle, busy = await site.connect(), await site.connect()
    await busy.say(b"GET / HT")
    await idle.get("/")
    await asyncio.wait_for(site.server.close(), PATIENCE)
    assert await asyncio.wait_for(idle.ended(), PATIENCE)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", site.address.port)


async def test_responses_are_sent_without_nagles_delay(serve, monkeypatch) -> None:
    """Nagle's algorithm would delay its second half by 40 ms."""
    loop, seen = asyncio.get_running_loop(), []
    connect = loop.connect_accepted_socket

    async def look(protocol, client, **more):
        seen.append(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return await connect(protocol, client, **more)

    monkeypatch.setattr(loop, "connect_accepted_socket", look)
    assert (await (await (await serve(echo)).connect()).get("/")).status == 200
    assert seen == [1]


async def test_server_listens_on_several_addresses_and_reports_the_real_ports() -> None:
    server = Server(echo)
    first, second = await server.listen([Address("127.0.0.1", 0), Address("localhost", 0)])
    try:
        assert first.port != second.port
        assert (second.host, first.host) == ("localhost", "127.0.0.1")
        for address in (first, second):
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.close()
    finally:
        await server.close()


async def test_one_address_in_use_means_no_address_at_all(serve) -> None:
    taken = (await serve(echo)).address
    server = Server(echo)
    with pytest.raises(ListenError, match=rf"cannot listen on {taken}: .*in use"):
        await server.listen([Address("127.0.0.1", 0), taken])
    assert server._listeners == []


async def test_unknown_host_is_reported_in_a_sentence() -> None:
    with pytest.raises(ListenError, match=r"cannot listen on nowhere\.invalid:0: \w+"):
        await Server(echo).listen([Address("nowhere.invalid", 0)])
