"""Connections of HTTP/1.1 by RFC 9112: when they persist and end, and Expect: 100-continue."""

import asyncio
import json

import pytest

from tests.evaluator.features.extender.http_messages import (
    CHUNKED,
    GOOD,
    NAMES,
    PASSING,
    QUESTION,
    SIZE,
    TRAP,
    chunks,
    is_refusal,
    is_the_answer,
    raw,
    sized,
)


class TestConnections:
    """RFC 9112 9: persistence of connections."""

    @pytest.mark.parametrize(
        "lines",
        [
            (b"Connection: close",),
            (b"Connection: CLOSE",),
            (b"Connection: x, close ,y",),
            (b"Connection: close, keep-alive",),
            (b"Connection: close", b"Connection: keep-alive"),
            (b"Connection: keep-alive", b"Connection: close"),
        ],
    )
    async def test_connection_close_is_respected(self, server, dial, lines):
        peer = await dial(server.port)
        await peer.say(sized(QUESTION, *lines) + TRAP)
        (reply,) = await peer.replies()
        is_the_answer(reply)
        assert reply.headers["connection"] == "close"
        assert server.counted("prioritize", 200, "decided") is None

    async def test_http_1_0_is_answered_and_needs_no_host(self, server, dial):
        peer = await dial(server.port)
        start = b"POST /scheduler/filter HTTP/1.0"
        await peer.say(sized(start=start, host=b"") + TRAP)
        (reply,) = await peer.replies()
        is_the_answer(reply)
        assert server.counted("prioritize", 200, "decided") is None

    async def test_http_1_0_connection_can_be_kept_alive(self, server, dial):
        peer = await dial(server.port)
        start = b"POST /scheduler/filter HTTP/1.0"
        reply = await peer.ask(sized(QUESTION, b"Connection: keep-alive", start=start))
        is_the_answer(reply)
        if reply.headers.get("connection", "close") == "close":
            assert await peer.rest() == b""
        else:
            assert reply.headers["connection"] == "keep-alive"
            is_the_answer(await peer.ask(sized()))

    async def test_pipelined_requests_are_answered_in_order(self, server, dial):
        peer = await dial(server.port)
        policies = [b"demo-policy", b"unknown", b"empty"] * 40
        asked = [QUESTION.replace(b"demo-policy", policy) for policy in policies]
        await peer.say(b"".join(sized(body) for body in asked))
        for policy in policies:
            passing = PASSING if policy == b"demo-policy" else list(NAMES)
            assert json.loads((await peer.reply()).body)["NodeNames"] == passing

    @pytest.mark.parametrize("size", [5, 50, 170, 333, 1000, 4000])
    async def test_pipelined_requests_may_be_split_anywhere(self, server, dial, size):
        peer = await dial(server.port)
        asked = b"".join(request for request in GOOD.values()) * 2
        for start in range(0, len(asked), size):
            await peer.say(asked[start : start + size])
            await asyncio.sleep(0)
        for _ in range(2 * len(GOOD)):
            is_the_answer(await peer.reply())

    @pytest.mark.parametrize("between", [b"\r\n", b"\r\n\r\n"])
    async def test_line_ends_between_requests_are_ignored(self, server, dial, between):
        """RFC 9112 2.2: old clients sent an empty line after a POST."""
        peer = await dial(server.port)
        is_the_answer(await peer.ask(sized() + between))
        is_the_answer(await peer.ask(sized() + between + sized()))
        is_the_answer(await peer.reply())

    async def test_half_closed_client_receives_all_its_responses(self, server, dial):
        peer = await dial(server.port)
        await peer.say(sized() * 5, end=True)
        replies = await peer.replies()
        assert len(replies) == 5
        for reply in replies:
            is_the_answer(reply)

    async def test_truncated_request_after_whole_ones_is_a_400(self, server, dial):
        peer = await dial(server.port)
        await peer.say(sized() * 2 + sized()[:-1], end=True)
        *whole, cut = await peer.replies()
        assert len(whole) == 2
        is_refusal(cut, 400)

    @pytest.mark.parametrize("cut", [1, 30, -1])
    async def test_truncated_header_is_closed(self, server, dial, cut):
        peer = await dial(server.port)
        await peer.say(raw(SIZE)[:cut], end=True)
        for reply in await peer.replies():
            is_refusal(reply, 400)


class TestExpectations:
    """RFC 9110 10.1.1: Expect."""

    async def test_continue_is_sent_before_the_body(self, server, dial):
        peer = await dial(server.port)
        first = await peer.ask(raw(SIZE, b"Expect: 100-continue"))
        assert (first.status, first.headers) == (100, {})
        is_the_answer(await peer.ask(QUESTION))
        is_the_answer(await peer.ask(sized()))

    async def test_expect_continue_is_case_insensitive_and_works_with_chunks(self, server, dial):
        peer = await dial(server.port)
        assert (await peer.ask(raw(CHUNKED, b"expect:100-CONTINUE"))).status == 100
        is_the_answer(await peer.ask(chunks(QUESTION)))

    async def test_body_sent_without_waiting_for_continue_is_answered(self, server, dial):
        peer = await dial(server.port)
        await peer.say(sized(QUESTION, b"Expect: 100-continue") + sized())
        reply = await peer.reply()
        is_the_answer(reply if reply.status != 100 else await peer.reply())
        is_the_answer(await peer.reply())

    async def test_expect_is_ignored_in_http_1_0(self, server, dial):
        peer = await dial(server.port)
        start = b"POST /scheduler/filter HTTP/1.0"
        is_the_answer(await peer.ask(sized(QUESTION, b"Expect: 100-continue", start=start)))

    async def test_other_expectations_are_rejected(self, server, dial):
        peer = await dial(server.port)
        await peer.say(sized(QUESTION, b"Expect: 200-everything") + TRAP)
        refused, *others = await peer.replies()
        is_refusal(refused, 417)
        assert others == []

    @pytest.mark.parametrize(
        ("request_", "status"),
        [
            (raw(b"Content-Length: 1001", b"Expect: 100-continue"), 413),
            (raw(SIZE, CHUNKED, b"Expect: 100-continue"), 400),
            (raw(b"Transfer-Encoding: gzip", b"Expect: 100-continue"), 501),
        ],
    )
    async def test_no_continue_is_sent_for_a_rejected_request(
        self, extender, decisions, dial, request_, status
    ):
        server = await extender(decisions, body_bytes=1000)
        peer = await dial(server.port)
        is_refusal(await peer.ask(request_), status)
        assert await peer.rest() == b""

    @pytest.mark.parametrize(
        ("start", "status"),
        [(b"POST /scheduler/bind HTTP/1.1", 404), (b"PUT /scheduler/filter HTTP/1.1", 405)],
    )
    async def test_unknown_path_may_send_continue_or_not(self, server, dial, start, status):
        peer = await dial(server.port)
        reply = await peer.ask(raw(SIZE, b"Expect: 100-continue", start=start))
        if reply.status == 100:
            reply = await peer.ask(QUESTION)
        is_refusal(reply, status)
