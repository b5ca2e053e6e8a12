"""Hostile clients: each costs no more than the limits allow, and other clients are answered."""

import asyncio
import contextlib
import gc
import json
import socket
import ssl

import psutil
import pytest

from tests.patience import PATIENCE

NAMES = ("node-a", "node-b", "node-c")
PASSING = ["node-a", "node-c"]
SOON = 0.15
"""A time limit in seconds that a client is meant to reach."""
LATER = 2.0
"""A time limit that a client must first keep, also on a busy machine, and then reach."""


def question(names=NAMES, policy="demo-policy"):
    metadata = {"name": "web", "namespace": "ns", "labels": {"telemetry-policy": policy}}
    return json.dumps({"Pod": {"metadata": metadata}, "NodeNames": list(names)}).encode()


QUESTION = question()


def head(*lines, start=b"POST /scheduler/filter HTTP/1.1"):
    return b"\r\n".join([start, b"Host: x", *lines, b"", b""])


def post(body=QUESTION, *lines):
    return head(b"Content-Length: %d" % len(body), *lines) + body


SIZED = head(b"Content-Length: %d" % len(QUESTION))
CHUNKED = head(b"Transfer-Encoding: chunked")


def is_the_answer(reply):
    assert reply.status == 200, reply
    assert json.loads(reply.body)["NodeNames"] == PASSING


def is_refusal(reply, status):
    assert reply.status == status, reply
    assert list(json.loads(reply.body)) == ["Error"]


async def is_refused_and_closed(peer, status):
    (reply,) = await peer.replies()
    is_refusal(reply, status)
    assert reply.headers["connection"] == "close"


@contextlib.asynccontextmanager
async def trickling(peer, text):
    """Send these bytes repeatedly, one at a time and slowly, until the block ends."""

    async def trickle():
        while True:
            for byte in text:
                await peer.say(bytes([byte]))
                await asyncio.sleep(0.005)  # the attack's own rate; nothing waits for it

    task = asyncio.create_task(trickle())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class TestTimeouts:
    """Time counts from the first byte to the last; slow bytes do not extend it."""

    async def test_slow_header_times_out(self, extender, decisions, dial):
        peer = await dial((await extender(decisions, header=SOON)).port)
        await peer.say(b"POST /scheduler/filter HTTP/1.1\r\n")
        async with trickling(peer, b"X: y\r\n"):
            await is_refused_and_closed(peer, 408)

    async def test_slow_empty_lines_time_out(self, extender, decisions, dial):
        peer = await dial((await extender(decisions, header=SOON)).port)
        async with trickling(peer, b"\r\n"):
            for reply in await peer.replies():
                is_refusal(reply, 408)

    async def test_slow_empty_lines_between_two_requests_time_out(self, extender, decisions, dial):
        """Otherwise a connection could stay neither idle nor within a request."""
        limits = {"header": LATER, "idle": LATER}
        peer = await dial((await extender(decisions, **limits)).port)
        is_the_answer(await peer.ask(post()))
        async with trickling(peer, b"\r\n"):
            for reply in await peer.replies():
                is_refusal(reply, 408)

    @pytest.mark.parametrize("cut", [1, 10, 40, -1])
    async def test_half_a_header_times_out(self, extender, decisions, dial, cut):
        peer = await dial((await extender(decisions, header=SOON)).port)
        await peer.say(SIZED[:cut])
        await is_refused_and_closed(peer, 408)

    async def test_half_a_header_of_a_later_request_times_out(self, extender, decisions, dial):
        peer = await dial((await extender(decisions, header=LATER)).port)
        is_the_answer(await peer.ask(post()))
        await peer.say(SIZED[:20])
        await is_refused_and_closed(peer, 408)

    async def test_silent_connection_times_out(self, extender, decisions, dial):
        peer = await dial((await extender(decisions, header=SOON)).port)
        assert await peer.rest() == b""

    async def test_idle_connection_times_out(self, extender, decisions, dial):
        peer = await dial((await extender(decisions, idle=LATER)).port)
        is_the_answer(await peer.ask(post()))
        assert await peer.rest() == b""

    async def test_idle_time_does_not_count_as_header_time(self, extender, decisions, dial):
        """Between two requests `Limits.idle` applies, not `Limits.header`."""
        peer = await dial((await extender(decisions, header=LATER)).port)
        is_the_answer(await peer.ask(post()))
        await asyncio.sleep(1.1 * LATER)
        is_the_answer(await peer.ask(post()))

    @pytest.mark.parametrize(
        ("begin", "text"),
        [
            (head(b"Content-Length: 100000"), b" "),
            (CHUNKED, b"1\r\n \r\n"),
            (CHUNKED + b"1;", b"x"),
            (CHUNKED, b"0"),
            (CHUNKED + b"0\r\n", b"X: y\r\n"),
        ],
        ids=["body", "chunks", "chunk extension", "chunk size", "trailers"],
    )
    async def test_slow_body_times_out(self, extender, decisions, dial, begin, text):
        peer = await dial((await extender(decisions, body=SOON)).port)
        await peer.say(begin)
        async with trickling(peer, text):
            (reply,) = await peer.replies()
        # A chunk size of twenty digits may be rejected earlier.
        is_refusal(reply, 408 if reply.status != 400 or text != b"0" else 400)

    @pytest.mark.parametrize("sent", [b"", b"{", QUESTION[:-1]])
    async def test_stalled_body_times_out(self, extender, decisions, dial, sent):
        peer = await dial((await extender(decisions, body=SOON)).port)
        await peer.say(SIZED + sent)
        await is_refused_and_closed(peer, 408)

    async def test_body_missing_after_continue_times_out(self, extender, decisions, dial):
        peer = await dial((await extender(decisions, body=SOON)).port)
        await peer.say(head(b"Content-Length: 10", b"Expect: 100-continue"))
        assert (await peer.reply()).status == 100
        await is_refused_and_closed(peer, 408)

    async def test_bytes_after_a_timeout_are_no_request(self, extender, decisions, dial):
        server = await extender(decisions, body=SOON)
        peer = await dial(server.port)
        await peer.say(SIZED + QUESTION[:-1])
        reply = await peer.reply()
        await peer.say(QUESTION[-1:] + post())
        is_refusal(reply, 408)
        assert await peer.rest() == b""
        assert server.counted("filter", 200, "decided") is None


LONG_NAMES = [
    f"{i:0250d}" for i in range(40_000)
]  # a response of 10 MB: more than socket buffers hold


class TestUnreadResponses:
    """Clients that send requests and do not read responses."""

    async def test_unread_response_times_out(self, extender, decisions, dial, until):
        server = await extender(decisions, send=SOON)
        files = open_files()
        peer = await dial(server.port)
        peer.writer.transport.pause_reading()
        await peer.say(post(question(LONG_NAMES, policy="")))
        await until(lambda: server.connections == 0)
        await until(lambda: open_files() <= files + 1)  # the client's own
        is_the_answer(await (await dial(server.port)).ask(post()))

    async def test_slowly_read_response_is_sent_whole(self, extender, decisions, dial):
        server = await extender(decisions)
        peer = await dial(server.port)
        await peer.say(post(question(LONG_NAMES, policy="")))
        reply = await peer.reply()
        assert json.loads(reply.body)["NodeNames"] == LONG_NAMES

    async def test_endless_requests_with_unread_responses_time_out(
        self, extender, decisions, dial, until
    ):
        """The server stops reading while it cannot write: memory per client is bounded."""
        server = await extender(decisions, send=SOON)
        peer = await dial(server.port)
        peer.writer.transport.pause_reading()
        body = question(LONG_NAMES[:400], policy="")  # 100 KB
        flood = asyncio.create_task(says_again_and_again(peer, post(body), 1000))
        await until(lambda: server.connections == 0)
        flood.cancel()
        await asyncio.gather(flood, return_exceptions=True)
        assert (
            server.counted("filter", 200, "no_policy_label") < 200
        )  # of 1000; socket buffers hold some


async def says_again_and_again(peer, raw, times):
    for _ in range(times):
        await peer.say(raw)


class TestSizeLimits:
    """Excess is rejected before it is stored."""

    @pytest.mark.parametrize(
        "begin",
        [
            b"POST /" + b"x" * 20_000,
            b"X" * 20_000,
            b"POST / HTTP/1.1\r\nX: " + b"y" * 20_000,
            b"POST / HTTP/1.1\r\n" + b"x" * 20_000,
            b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 4_000,
        ],
        ids=["target", "method", "value", "name", "fields"],
    )
    async def test_endless_header_is_rejected(self, server, dial, begin):
        peer = await dial(server.port)
        await peer.say(begin)
        await is_refused_and_closed(peer, 431)

    async def test_oversized_whole_header_is_rejected(self, server, dial):
        peer = await dial(server.port)
        await peer.say(post(QUESTION, b"X: " + b"y" * 20_000) + post())
        await is_refused_and_closed(peer, 431)

    async def test_header_up_to_the_limit_is_accepted(self, extender, decisions, dial):
        small = await extender(decisions, header_bytes=4096)
        room = 4096 - len(head(b"Content-Length: %d" % len(QUESTION), b"X: "))
        is_the_answer(await (await dial(small.port)).ask(post(QUESTION, b"X: " + b"y" * room)))
        peer = await dial(small.port)
        await peer.say(post(QUESTION, b"X: " + b"y" * (room + 1)))
        await is_refused_and_closed(peer, 431)

    @pytest.mark.parametrize("end", [b"0\r\n" + b"X: y\r\n" * 4_000, b"1;" + b"x" * 20_000])
    async def test_endless_trailers_and_chunk_extensions_are_rejected(self, server, dial, end):
        peer = await dial(server.port)
        await peer.say(CHUNKED + b"%x\r\n%s\r\n" % (len(QUESTION), QUESTION) + end)
        (reply,) = await peer.replies()
        is_refusal(reply, reply.status)
        assert reply.status in (400, 413, 431)

    @pytest.mark.parametrize(
        "request_",
        [
            head(b"Content-Length: 1001"),
            head(b"Content-Length: %d" % 10**19),
            CHUNKED + b"3e9\r\n" + b" " * 1001,
            CHUNKED + b"64\r\n%s\r\n" % (b" " * 100) * 11,
            CHUNKED + b"1\r\n \r\n" * 1001,
        ],
        ids=["announced length", "huge announced length", "one chunk", "chunks", "many chunks"],
    )
    async def test_body_beyond_the_limit_is_rejected(self, extender, decisions, dial, request_):
        server = await extender(decisions, body_bytes=1000)
        peer = await dial(server.port)
        await peer.say(request_)
        reply = await peer.reply()
        is_refusal(reply, 413)
        assert reply.headers["connection"] == "close"
        await peer.say(post())
        assert await peer.rest() == b""
        assert server.counted("filter", 200, "decided") is None

    async def test_oversized_body_is_rejected_before_it_is_sent(self, extender, decisions, dial):
        server = await extender(decisions, body_bytes=1000)
        is_refusal(await (await dial(server.port)).ask(head(b"Content-Length: 2000000")), 413)

    @pytest.mark.parametrize(
        ("start", "status"),
        [(b"POST /scheduler/bind HTTP/1.1", 404), (b"PUT /scheduler/filter HTTP/1.1", 405)],
    )
    @pytest.mark.parametrize("framing", [b"Content-Length: 2000", b"Transfer-Encoding: chunked"])
    async def test_wrong_path_or_method_is_rejected_before_the_body(
        self, server, dial, start, status, framing
    ):
        peer = await dial(server.port)
        reply = await peer.ask(head(framing, start=start))
        is_refusal(reply, status)
        assert reply.headers["connection"] == "close"

    async def test_header_with_too_many_fields_is_rejected(self, server, dial):
        peer = await dial(server.port)
        await peer.say(post(QUESTION, *[b"X: y"] * 99) + post())
        await is_refused_and_closed(peer, 431)

    @pytest.mark.parametrize(
        "framing", [b"Content-Length: 20000000", b"Transfer-Encoding: chunked"]
    )
    async def test_rejection_reaches_a_client_that_sends_everything_first(
        self, extender, decisions, framing
    ):
        """RFC 9112 9.6: closing at once would break such a client before it reads the response."""
        server = await extender(decisions, body_bytes=1000, linger=PATIENCE)
        raw = head(framing) + b"1312d00\r\n" + bytes(20_000_000)
        assert b" 413 " in await asyncio.to_thread(sends_everything_first, server.port, raw)

    @pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"Pod":', b'{"Pod":{"metadata":'])
    async def test_endless_nesting_is_rejected(self, server, dial, opening):
        peer = await dial(server.port)
        is_refusal(await peer.ask(post(opening * 300_000)), 400)
        is_the_answer(await peer.ask(post()))

    async def test_unknown_paths_and_methods_add_no_series(self, server, dial):
        """Otherwise clients could create series without bound."""
        peer = await dial(server.port)
        for start in (b"POST /x", b"BREW /scheduler/filter"):
            await peer.ask(head(b"Content-Length: 0", start=start + b" HTTP/1.1"))
        before = series(server)
        for i in range(30):
            for start in (b"POST /x%d" % i, b"BREW%d /scheduler/filter" % i):
                peer = await dial(server.port)
                await peer.ask(head(b"Content-Length: 0", start=start + b" HTTP/1.1"))
        assert series(server) == before


def sends_everything_first(port, raw):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
        plain.sendall(raw)
        return plain.recv(100)


def series(server):
    return sum(len(family.samples) for family in server.registry.collect())


CAP = 400_000
BODIES = {"body_bytes": CAP, "bodies_bytes": CAP}


def padded(size):
    return QUESTION[:-1] + b" " * (size - len(QUESTION)) + b"}"


class TestTotalBodyLimit:
    """`Limits.bodies_bytes` counts received bytes of all bodies, not announced ones."""

    async def test_body_beyond_the_total_limit_gets_retry_later(self, extender, decisions, dial):
        server = await extender(decisions, **BODIES)
        holder, other = await dial(server.port), await dial(server.port)
        large, small = padded(390_000), padded(150_000)
        await holder.say(post(large)[:-1])
        await until_received(server, dial)
        refused = await other.ask(post(small))
        is_refusal(refused, 503)
        assert int(refused.headers["retry-after"]) >= 1
        is_the_answer(await holder.ask(large[-1:]))
        is_the_answer(await (await dial(server.port)).ask(post(small)))

    @pytest.mark.parametrize(
        "framing", [b"Content-Length: %d" % CAP, b"Transfer-Encoding: chunked"]
    )
    async def test_announced_lengths_reserve_no_memory(self, extender, decisions, dial, framing):
        server = await extender(decisions, **BODIES)
        for _ in range(20):
            await (await dial(server.port)).say(head(framing))
        peer = await dial(server.port)
        is_the_answer(await peer.ask(post(padded(CAP // 2))))

    async def test_reserved_memory_is_released_however_a_request_ends(
        self, extender, decisions, dial, until
    ):
        server = await extender(decisions, body_bytes=CAP, bodies_bytes=CAP, body=LATER)
        chunk = b"%x\r\n%s\r\n" % (200_000, bytes(200_000))
        for raw in (
            post(padded(CAP))[:-1],  # truncated
            post(b"{" * CAP),  # rejected as JSON
            head(b"Content-Length: %d" % (CAP + 1)),
            CHUNKED + chunk + b"nonsense\r\n",
            CHUNKED + chunk * 3,  # beyond the limit
            post(padded(CAP)),
        ):
            for _ in range(3):
                peer = await dial(server.port)
                await peer.ask(raw, end=True)
        for vanishing in (post(padded(CAP))[:-1], CHUNKED + chunk):
            for _ in range(3):
                peer = await dial(server.port)
                await peer.say(vanishing)
                peer.vanish()
            await until(lambda: server.connections == 0)
        slow = await dial(server.port)
        is_refusal(await slow.ask(post(padded(CAP))[:-1]), 408)
        is_the_answer(await (await dial(server.port)).ask(post(padded(CAP))))


async def until_received(server, dial):
    """The server has read what was sent earlier: connections are served in turn."""
    for _ in range(3):
        assert (await (await dial(server.port)).ask(head(start=b"GET / HTTP/1.1"))).status == 404


class TestConnectionLimits:
    """`Limits.connections`: which connection is closed and which is rejected."""

    async def test_connection_idle_longest_is_closed_first(self, extender, decisions, dial):
        server = await extender(decisions, connections=2)
        first, second = await dial(server.port), await dial(server.port)
        for peer in (first, second, first):
            is_the_answer(await peer.ask(post()))
        third = await dial(server.port)
        is_the_answer(await third.ask(post()))
        assert await second.rest() == b""
        is_the_answer(await first.ask(post()))

    @pytest.mark.parametrize(
        "said",
        [b"", b"POST /sched", SIZED[:-2], b"\r\n", b"\x16\x03\x01\x02\x00\x01"],
        ids=["no bytes", "one line", "half a header", "empty line", "TLS"],
    )
    async def test_unauthenticated_connections_do_not_displace_clients_or_block_new_ones(
        self, extender, decisions, dial, said
    ):
        server = await extender(decisions, connections=8)
        client = await dial(server.port)
        is_the_answer(await client.ask(post()))
        for _ in range(30):
            await (await dial(server.port)).say(said)
        is_the_answer(await client.ask(post()))
        newcomer = await dial(server.port)
        is_the_answer(await newcomer.ask(post()))
        assert server.connections <= 8

    async def test_open_request_is_not_displaced_by_silent_connections(
        self, extender, decisions, dial
    ):
        server = await extender(decisions, connections=8)
        client = await dial(server.port)
        is_the_answer(await client.ask(post()))
        await client.say(SIZED + QUESTION[:-1])
        for _ in range(30):
            await dial(server.port)
        is_the_answer(await client.ask(QUESTION[-1:]))

    async def test_flood_of_short_connections_is_survived(self, server, dial):
        client = await dial(server.port)
        is_the_answer(
            await client.ask(post())
        )  # from then on it may be idle, however long the flood takes
        for _ in range(200):
            (await dial(server.port)).vanish()
        is_the_answer(await client.ask(post()))


def open_files():
    return psutil.Process().num_fds()


def at_rest(server):
    """Values that an attack must not change: descriptors, tasks and connections."""
    gc.collect()
    return open_files(), len(asyncio.all_tasks()), server.connections


async def nothing_is_left(server, before, until):
    """Responses in flight when an attack began may have completed."""

    def more():
        return [now - then for now, then in zip(at_rest(server), before, strict=True) if now > then]

    try:
        await until(lambda: not more())
    except TimeoutError:
        raise AssertionError(f"{before} became {at_rest(server)}") from None


class Attack:
    """Connections of one kind, opened together and kept until they are ended."""

    def __init__(self, port):
        self._port = port
        self._writers = []

    async def begin(self, count, said=b"", *, deaf=False):
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            if deaf:
                writer.transport.pause_reading()
            self._writers.append((reader, writer))
            with contextlib.suppress(ConnectionError):
                writer.write(said)

    async def end(self):
        for _, writer in self._writers:
            writer.transport.abort()
        for _, writer in self._writers:
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        self._writers.clear()


ATTACKS = {
    "silence": (b"", False),
    "half a line": (b"POST /scheduler/fil", False),
    "half a header": (SIZED[:-2], False),
    "half a body": (SIZED + QUESTION[:-1], False),
    "half a chunk": (CHUNKED + b"ff\r\n{", False),
    "a body that is asked for": (head(b"Content-Length: 5", b"Expect: 100-continue"), False),
    "no HTTP": (bytes(range(256)) * 4, False),
    "unread answers": (post(question(LONG_NAMES[:4_000], policy="")) * 2, True),
    "unread refusals": (head(b"Content-Length: 0", start=b"GET / HTTP/1.1") * 500, True),
    "half a handshake": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), False),
}


@pytest.mark.parametrize(("said", "deaf"), ATTACKS.values(), ids=ATTACKS.keys())
async def test_client_is_answered_under_attack_and_nothing_leaks(
    server, dial, until, soak, said, deaf
):
    client = await dial(server.port)
    is_the_answer(await client.ask(post()))
    before = at_rest(server)
    attack = Attack(server.port)
    size = (20 if deaf else 300) if soak else (5 if deaf else 20)
    for _ in range(50 if soak else 2):
        await attack.begin(size, said, deaf=deaf)
        is_the_answer(await client.ask(post()))
        async with asyncio.timeout(PATIENCE):
            newcomer = await dial(server.port)
            is_the_answer(await newcomer.ask(post()))
        newcomer.vanish()
        await attack.end()
        is_the_answer(await client.ask(post()))
    await nothing_is_left(server, before, until)


@pytest.mark.parametrize("kind", ["half a hello", "no hello", "a hello and no more"])
async def test_half_handshakes_do_no_harm(
    extender, decisions, dial, until, secured, authority, kind
):
    server = await extender(decisions, handshake=1.0, connections=16, tls=secured)
    context = authority.client(*authority.issue("kube-scheduler"))
    client = await dial(server.port, context)
    is_the_answer(await client.ask(post()))
    before = at_rest(server)
    attack = Attack(server.port)
    hello = client_hello(context)
    said = {"half a hello": hello[:60], "no hello": b"", "a hello and no more": hello}[kind]
    await attack.begin(30, said)
    is_the_answer(await client.ask(post()))
    newcomer = await dial(server.port, context)
    is_the_answer(await newcomer.ask(post()))
    newcomer.vanish()
    await attack.end()
    is_the_answer(await client.ask(post()))
    await nothing_is_left(server, before, until)


def client_hello(context):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("begun", [False, True], ids=["silent", "half a TLS hello"])
async def test_missing_handshake_times_out(extender, decisions, dial, secured, authority, begun):
    server = await extender(decisions, handshake=SOON, tls=secured)
    peer = await dial(server.port)
    if begun:
        await peer.say(client_hello(authority.client())[:60])
    await peer.rest()  # a TLS alert, or nothing


async def test_silence_after_a_handshake_times_out(extender, decisions, dial, secured, authority):
    server = await extender(decisions, header=LATER, tls=secured)
    peer = await dial(server.port, authority.client(*authority.issue("kube-scheduler")))
    assert await peer.rest() == b""


async def test_unread_response_over_tls_times_out(
    extender, decisions, dial, until, secured, authority
):
    server = await extender(decisions, send=SOON, linger=SOON, tls=secured)
    peer = await dial(server.port, authority.client(*authority.issue("kube-scheduler")))
    peer.writer.transport.pause_reading()
    await peer.say(post(question(LONG_NAMES, policy="")))
    await until(lambda: server.connections == 0)
