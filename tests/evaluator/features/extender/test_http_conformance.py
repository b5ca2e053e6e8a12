"""HTTP/1.1 by RFC 9110 and RFC 9112: what must be served, what must be rejected, and no ambiguous framing
(request smuggling).
"""

import asyncio
import gzip

import pytest

from tests.evaluator.features.extender.http_messages import (
    CHUNKED,
    GOOD,
    QUESTION,
    SIZE,
    TRAP,
    chunks,
    is_refusal,
    is_the_answer,
    raw,
    sized,
)


@pytest.mark.parametrize("request_", GOOD.values(), ids=GOOD.keys())
async def test_valid_request_is_answered_and_ends_at_its_end(server, dial, request_):
    peer = await dial(server.port)
    await peer.say(request_ + sized() + request_)
    for _ in range(3):
        is_the_answer(await peer.reply())
    assert server.counted("filter", 200, "decided") == 3


@pytest.mark.parametrize("request_", GOOD.values(), ids=GOOD.keys())
async def test_valid_request_may_arrive_byte_by_byte(server, dial, request_):
    peer = await dial(server.port)
    for byte in request_:
        await peer.say(bytes([byte]))
        await asyncio.sleep(0)
    is_the_answer(await peer.reply())
    is_the_answer(await peer.ask(sized()))


FAULTY = {
    # RFC 9112 6.1, 6.3: body length.
    "both framings": raw(SIZE, CHUNKED, body=chunks(QUESTION)),
    "both framings, the other way round": raw(CHUNKED, b"Content-Length: 5", body=chunks(QUESTION)),
    "both framings, an empty body by one": raw(b"Content-Length: 0", CHUNKED, body=b"0\r\n\r\n"),
    "two lengths": raw(SIZE, b"Content-Length: 3", body=QUESTION),
    "the same length twice": raw(SIZE, SIZE, body=QUESTION),
    "two lengths in one": raw(b"Content-Length: %d, 3" % len(QUESTION), body=QUESTION),
    "an empty one of two lengths": raw(b"Content-Length: %d," % len(QUESTION), body=QUESTION),
    "no length in the length": raw(b"Content-Length:", body=QUESTION),
    "a signed length": raw(b"Content-Length: +%d" % len(QUESTION), body=QUESTION),
    "a negative length": raw(b"Content-Length: -1", body=QUESTION),
    "a hexadecimal length": raw(b"Content-Length: 0x10", body=QUESTION),
    "a length with an underscore": raw(b"Content-Length: 1_0", body=QUESTION),
    "a length with a point": raw(b"Content-Length: 10.0", body=QUESTION),
    "a length in two words": raw(b"Content-Length: 1 0", body=QUESTION),
    "a length of other digits": raw("Content-Length: ١٢".encode(), body=QUESTION),
    "a length of thousands of digits": raw(b"Content-Length: " + b"9" * 5000, body=QUESTION),
    "chunks in HTTP/1.0": raw(
        CHUNKED, start=b"POST /scheduler/filter HTTP/1.0", body=chunks(QUESTION)
    ),
    # RFC 9112 7.1: chunks.
    "no chunk size": raw(CHUNKED, body=b"\r\n" + QUESTION),
    "a chunk size that is no number": raw(CHUNKED, body=b"xyz\r\nhello\r\n0\r\n\r\n"),
    "a negative chunk size": raw(CHUNKED, body=b"-5\r\nhello\r\n0\r\n\r\n"),
    "a signed chunk size": raw(CHUNKED, body=b"+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with 0x": raw(CHUNKED, body=b"0x5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with an underscore": raw(CHUNKED, body=b"0_5\r\nhello\r\n0\r\n\r\n"),
    "a space before a chunk size": raw(CHUNKED, body=b" 5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size that ends in LF": raw(CHUNKED, body=b"5\nhello\r\n0\r\n\r\n"),
    "a chunk size that ends in CR": raw(CHUNKED, body=b"5\rhello\r\n0\r\n\r\n"),
    "a LF in a chunk extension": raw(CHUNKED, body=b"5;a\nhello\r\n0\r\n\r\n"),
    "a chunk longer than it says": raw(CHUNKED, body=b"5\r\nhello!\r\n0\r\n\r\n"),
    "a chunk shorter than it says": raw(CHUNKED, body=b"6\r\nhello\r\n0\r\n\r\n"),
    "a chunk that ends in LF": raw(CHUNKED, body=b"5\r\nhello\n0\r\n\r\n"),
    "the end of the chunks in LF": raw(CHUNKED, body=b"5\r\nhello\r\n0\n\n"),
    "a trailer that is none": raw(CHUNKED, body=b"5\r\nhello\r\n0\r\nno colon\r\n\r\n"),
    "a space after a trailer's name": raw(CHUNKED, body=b"5\r\nhello\r\n0\r\nX : y\r\n\r\n"),
    "a trailer that ends in LF": raw(CHUNKED, body=b"5\r\nhello\r\n0\r\nX: y\n\r\n"),
    "trailers that end in LF": raw(CHUNKED, body=b"5\r\nhello\r\n0\r\nX: y\r\n\n"),
    "a folded trailer": raw(CHUNKED, body=b"5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n"),
    "a CR in a chunk extension": raw(CHUNKED, body=b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "a NUL in a chunk extension": raw(CHUNKED, body=b"5;a\0\r\nhello\r\n0\r\n\r\n"),
    # RFC 9112 2.2, 5.1, 5.2: lines.
    "a line that ends in LF": raw(SIZE + b"\nX: y", body=QUESTION),
    "all lines end in LF": raw(SIZE, body=b"").replace(b"\r\n", b"\n") + QUESTION,
    "a request line that ends in LF": sized().replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n", 1),
    "the header ends in LF": raw(SIZE, body=b"")[:-2] + b"\n" + QUESTION,
    "a line that ends in CR": raw(SIZE + b"\rX: y", body=QUESTION),
    "CR CR LF": raw(SIZE + b"\r", body=QUESTION),
    "a CR before a name": raw(SIZE, b"\rX: y", body=QUESTION),
    "a folded line": raw(SIZE, b"X: y", b" z", body=QUESTION),
    "a folded line, by a tab": raw(SIZE, b"X: y", b"\tz", body=QUESTION),
    "a folded length": raw(b"Content-Length:", b" %d" % len(QUESTION), body=QUESTION),
    "a folded framing": raw(b"X: y", b" Transfer-Encoding: chunked", SIZE, body=QUESTION),
    "a first line that is folded": raw(SIZE, host=b" Host: x", body=QUESTION),
    "an empty folded line": raw(SIZE, b"X: y", b" ", body=QUESTION),
    "a space before the colon": raw(b"Content-Length : %d" % len(QUESTION), body=QUESTION),
    "a tab before the colon": raw(CHUNKED.replace(b":", b"\t:"), body=chunks(QUESTION)),
    "no colon": raw(SIZE, b"nonsense", body=QUESTION),
    "no name": raw(SIZE, b": y", body=QUESTION),
    "a name in brackets": raw(SIZE, b"X(1): y", body=QUESTION),
    "a name beyond ASCII": raw(SIZE, "É: y".encode(), body=QUESTION),
    "a NUL in a name": raw(SIZE, b"X\0: y", body=QUESTION),
    "a NUL in a value": raw(SIZE, b"X: \0", body=QUESTION),
    "a vertical tab in a framing": raw(b"Transfer-Encoding: \x0bchunked", body=chunks(QUESTION)),
    "a NUL in a length": raw(SIZE + b"\0", body=QUESTION),
    # RFC 9112 3: the request line.
    "two spaces": sized(start=b"POST  /scheduler/filter HTTP/1.1"),
    "a tab for a space": sized(start=b"POST\t/scheduler/filter HTTP/1.1"),
    "a space at the end": sized(start=b"POST /scheduler/filter HTTP/1.1 "),
    "a space at the start": sized(start=b" POST /scheduler/filter HTTP/1.1"),
    "a space in the target": sized(start=b"POST /scheduler/filter x HTTP/1.1"),
    "no version": sized(start=b"POST /scheduler/filter"),
    "no target": sized(start=b"POST HTTP/1.1"),
    "nothing but a word": b"NONSENSE\r\n\r\n",
    "a version in small letters": sized(start=b"POST /scheduler/filter http/1.1"),
    "a version of two digits": sized(start=b"POST /scheduler/filter HTTP/1.10"),
    "a version without a point": sized(start=b"POST /scheduler/filter HTTP/1"),
    "another protocol": sized(start=b"POST /scheduler/filter ICAP/1.0"),
    "a NUL in the target": sized(start=b"POST /scheduler/filter\0 HTTP/1.1"),
    "a byte beyond ASCII in the target": sized(start=b"POST /scheduler/filter\xe9 HTTP/1.1"),
    "a method that is no token": sized(start=b"PO(ST /scheduler/filter HTTP/1.1"),
    # RFC 9112 3.2: Host.
    "no Host": sized(host=b""),
    "two Hosts": sized(QUESTION, b"Host: y"),
    "the same Host twice": sized(QUESTION, b"Host: x"),
    "two names in Host": sized(host=b"Host: x, y"),
    "two words in Host": sized(host=b"Host: x y"),
    "a path in Host": sized(host=b"Host: x/y"),
    "a user in Host": sized(host=b"Host: u@x"),
    "a port of letters in Host": sized(host=b"Host: x:y"),
    # Other protocols altogether.
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "a Redis command": b"*1\r\n$4\r\nINFO\r\n\r\n",
    "a proxy's preface": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + sized(),
}


@pytest.mark.parametrize("request_", FAULTY.values(), ids=FAULTY.keys())
async def test_ambiguous_framing_is_rejected_with_all_that_follows(server, dial, request_):
    peer = await dial(server.port)
    await peer.say(request_ + TRAP + TRAP)
    (reply,) = await peer.replies()
    is_refusal(reply, 400)
    assert reply.headers["connection"] == "close"
    assert server.counted("prioritize", 200, "decided") is None
    assert server.counted("filter", 200, "decided") is None


@pytest.mark.parametrize("request_", FAULTY.values(), ids=FAULTY.keys())
async def test_ambiguous_framing_is_rejected_after_a_valid_request_too(server, dial, request_):
    peer = await dial(server.port)
    await peer.say(sized() + request_ + TRAP)
    right, wrong = await peer.replies()
    is_the_answer(right)
    is_refusal(wrong, 400)
    assert server.counted("prioritize", 200, "decided") is None


UNKNOWN_CODINGS = {
    "another coding": raw(b"Transfer-Encoding: gzip", body=chunks(QUESTION)),
    "two codings": raw(b"Transfer-Encoding: gzip, chunked", body=chunks(QUESTION)),
    "chunked, but not last": raw(b"Transfer-Encoding: chunked, gzip", body=chunks(QUESTION)),
    "chunked twice": raw(b"Transfer-Encoding: chunked, chunked", body=chunks(QUESTION)),
    "identity": raw(b"Transfer-Encoding: identity", SIZE, body=QUESTION),
    "almost chunked": raw(b"Transfer-Encoding: xchunked", body=chunks(QUESTION)),
    "chunked in quotes": raw(b'Transfer-Encoding: "chunked"', body=chunks(QUESTION)),
    "chunked with a parameter": raw(b"Transfer-Encoding: chunked;q=1", body=chunks(QUESTION)),
    "no coding": raw(b"Transfer-Encoding:", body=chunks(QUESTION)),
    "two lines of codings": raw(CHUNKED, b"Transfer-Encoding: identity", body=chunks(QUESTION)),
    "the same line twice": raw(CHUNKED, CHUNKED, body=chunks(QUESTION)),
}


@pytest.mark.parametrize("request_", UNKNOWN_CODINGS.values(), ids=UNKNOWN_CODINGS.keys())
async def test_other_codings_than_chunked_are_not_implemented(server, dial, request_):
    peer = await dial(server.port)
    await peer.say(request_ + TRAP)
    (reply,) = await peer.replies()
    is_refusal(reply, 400, 501)
    assert server.counted("prioritize", 200, "decided") is None


OTHER_VERSIONS = {
    "HTTP/2 as it begins": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "HTTP/2 spelled as 1.1": sized(start=b"POST /scheduler/filter HTTP/2.0"),
    "HTTP/3": sized(start=b"POST /scheduler/filter HTTP/3.0"),
    "HTTP/0.9": sized(start=b"POST /scheduler/filter HTTP/0.9"),
    "HTTP/9.9": sized(start=b"POST /scheduler/filter HTTP/9.9"),
}


@pytest.mark.parametrize("request_", OTHER_VERSIONS.values(), ids=OTHER_VERSIONS.keys())
async def test_other_major_versions_than_one_are_rejected(server, dial, request_):
    peer = await dial(server.port)
    await peer.say(request_ + TRAP)
    (reply,) = await peer.replies()
    is_refusal(reply, 400, 505)
    assert server.counted("prioritize", 200, "decided") is None


ELSEWHERE = {
    "bind": (b"POST /scheduler/bind HTTP/1.1", 404),
    "the root": (b"POST / HTTP/1.1", 404),
    "a longer path": (b"POST /scheduler/filter/ HTTP/1.1", 404),
    "a path in other letters": (b"POST /Scheduler/Filter HTTP/1.1", 404),
    "an encoded slash": (b"POST /scheduler%2Ffilter HTTP/1.1", 404),
    "a detour": (b"POST /x/../scheduler/filter HTTP/1.1", 404),
    "an encoded detour": (b"POST /scheduler/%2e%2e/%2e%2e/etc/passwd HTTP/1.1", 404),
    "encoded line ends": (b"POST /x%0d%0aSet-Cookie:a=b HTTP/1.1", 404),
    "a very long path": (b"POST /" + b"x" * 12_000 + b" HTTP/1.1", 404),
    "quotes": (b'POST /"><script>alert(1)</script> HTTP/1.1', 404),
    "the operator's pages": (b"GET /metrics HTTP/1.1", 404),
    "a path after two slashes": (b"POST //x/scheduler/filter HTTP/1.1", 404),
    "brackets that are no address": (b"POST //[/scheduler/filter HTTP/1.1", 404),
    "another scheme": (b"POST ftp://x/scheduler/filter HTTP/1.1", 404),
    "a URL without a path": (b"POST http://x HTTP/1.1", 404),
    "a fragment": (b"POST /scheduler/filter#x HTTP/1.1", 404),
    "everything": (b"OPTIONS * HTTP/1.1", 404),
    "a tunnel": (b"CONNECT x:443 HTTP/1.1", 404),
    "GET": (b"GET /scheduler/filter HTTP/1.1", 405),
    "PUT": (b"PUT /scheduler/filter HTTP/1.1", 405),
    "TRACE": (b"TRACE /scheduler/filter HTTP/1.1", 405),
    "post": (b"post /scheduler/filter HTTP/1.1", 405),
    "a method of many letters": (b"X" * 1000 + b" /scheduler/filter HTTP/1.1", 405),
}


@pytest.mark.parametrize(("start", "status"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_body_of_a_rejected_request_is_no_request(server, dial, start, status, framing):
    hidden = (
        sized(TRAP, start=start)
        if framing == "length"
        else raw(CHUNKED, start=start, body=chunks(TRAP))
    )
    peer = await dial(server.port)
    await peer.say(hidden + sized(QUESTION, b"Connection: close"))
    refused, *others = await peer.replies()
    is_refusal(refused, status)
    if status == 405:
        assert refused.headers["allow"] == "POST"
    if refused.headers.get("connection") != "close":
        (answered,) = others
        is_the_answer(answered)
    else:
        assert others == []
    assert server.counted("prioritize", 200, "decided") is None


async def test_head_response_lists_allowed_methods_without_a_body(server, dial):
    peer = await dial(server.port)
    await peer.say(
        raw(start=b"HEAD /scheduler/filter HTTP/1.1") + sized(QUESTION, b"Connection: close")
    )
    reply = await peer.reply(head=True)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    if reply.headers.get("connection") == "close":
        assert await peer.rest() == b""
    else:
        is_the_answer(await peer.reply())


async def test_post_without_a_length_is_rejected_and_the_next_request_is_read(server, dial):
    peer = await dial(server.port)
    await peer.say(raw() + sized(QUESTION, b"Connection: close"))
    first, second = await peer.replies()
    is_refusal(first, 400, 411)
    is_the_answer(second)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br"])
async def test_compressed_body_is_rejected(server, dial, coding):
    """Otherwise a few kilobytes could become gigabytes."""
    peer = await dial(server.port)
    is_refusal(
        await peer.ask(sized(gzip.compress(QUESTION), b"Content-Encoding: " + coding)), 400, 415
    )
