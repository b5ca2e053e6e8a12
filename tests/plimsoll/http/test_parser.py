"""Headers byte by byte: parsing does not depend on how they are split and is never ambiguous."""

import itertools
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.http.parser import Framing, RequestParser, written
from plimsoll.http.types import RejectedRequestError, Response

LIMIT = 1000
HEAD = (
    b"POST /scheduler/filter?a=1&a=2&b HTTP/1.1\r\nHost: evaluator.plimsoll:9001\r\n"
    b"Content-Length: 5\r\nX-One: 1\r\nX-One: 2\r\n\r\n"
)


def read(raw, cuts=()):
    """Parse a header in pieces; return the request, its framing, and the excess bytes."""
    reading, found = RequestParser(LIMIT), None
    edges = [0, *sorted(cuts), len(raw)]
    for begin, end in itertools.pairwise(edges):
        if found is None and begin < end:
            found = reading.head(raw[begin:end])
    return found, reading.rest


@given(cuts=st.lists(st.integers(1, len(HEAD) - 1), max_size=9), blank=st.integers(0, 3))
def test_header_may_be_split_anywhere_and_follow_empty_lines(cuts, blank):
    raw = b"\r\n" * blank + HEAD
    (request, framing), _ = read(raw, cuts)
    assert (request.method, request.path) == ("POST", "/scheduler/filter")
    assert request.query == {"a": ["1", "2"], "b": [""]}
    assert request.headers["x-one"] == "1, 2"
    assert framing == Framing(5, asks_first=False, keep_alive=True)


def test_values_of_a_repeated_header_are_kept_apart():
    (request, _), _ = read(head("X-One: a, b", "x-one: c", "X-Two: d, e"))
    assert request.headers["x-one"] == "a, b, c"
    assert list(request.values("x-one")) == ["a, b", "c"]
    assert list(request.values("x-two")) == ["d, e"]
    assert list(request.values("x-three")) == []


def test_bytes_after_the_header_are_kept():
    _, rest = read(HEAD + b"hello and more")
    assert rest == b"hello and more"


def head(*lines, line="GET /x HTTP/1.1"):
    return "\r\n".join([line, "Host: x", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("raw", "framing"),
    [
        (head(), Framing(0, False, True)),
        (head("Transfer-Encoding: chunked"), Framing(None, False, True)),
        (head("Content-Length: 3", "Expect: 100-Continue"), Framing(3, True, True)),
        (head("Connection: close"), Framing(0, False, False)),
        (head("Connection: keep-alive", "Connection: Close"), Framing(0, False, False)),
        (head("Connection: closed-door"), Framing(0, False, True)),
        (head(line="GET /x HTTP/1.0"), Framing(0, False, False)),
    ],
)
def test_body_framing_is_parsed(raw, framing):
    (_, found), _ = read(raw)
    assert found == framing


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a/b?c=d", "/a/b"),
        ("//x/y", "//x/y"),
        ("http://host:1/a?b", "/a"),
        ("HTTPS://host", "/"),
        ("x:/a", "x:/a"),
        ("*", "*"),
    ],
)
def test_path_is_normalized_as_by_other_parsers(target, path):
    (request, _), _ = read(head(line=f"GET {target} HTTP/1.1"))
    assert request.path == path


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /x HTTP/1.1\nHost: x\n\n", 400),
        (head("A: b\r\n c"), 400),
        (head("A: b\n\tc"), 400),
        (head("Host: y"), 400),
        (b"GET /x HTTP/1.1\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        (head("Content-Length: 3", "Transfer-Encoding: chunked"), 400),
        (head("Content-Length: 3", "Content-Length: 4"), 400),
        (head("Content-Length: 4", "Content-Length: 4"), 400),
        (head("Transfer-Encoding: chunked", line="POST /x HTTP/1.0"), 400),
        (head("Transfer-Encoding: gzip"), 501),
        (head("Expect: a miracle"), 417),
        (head(line="GET /x HTTP/2.0"), 505),
        (head("X: " + "y" * LIMIT), 431),
        (head(*["a:b"] * 100), 431),
        (head("Content-Length: " + "0" * 30 + "4"), 400),
        (head("X: \x01"), 400),
        (b"\x16\x03\x01", 400),
        (head(line="GET  /x HTTP/1.1"), 400),
        (head(line="GET /x?" + "&".join("abc") + "&" * 98 + " HTTP/1.1"), 400),
    ],
)
def test_ambiguous_header_is_rejected(raw, status):
    with pytest.raises(RejectedRequestError) as refused:
        read(raw)
    assert refused.value.status == status
    assert "bytearray" not in str(refused.value)


def test_no_field_after_the_101st_is_read():
    reading = RequestParser(1 << 20)
    with pytest.raises(RejectedRequestError) as refused:
        reading.head(b"GET /x HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % i for i in range(3_000)))
    assert refused.value.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    assert len(reading._fields.values) == 100


def test_query_length_is_limited():
    reading = RequestParser(1 << 20)
    with pytest.raises(RejectedRequestError) as refused:
        reading.head(head(line=f"GET /x?a={'y' * 4_096} HTTP/1.1"))
    assert refused.value.status == HTTPStatus.REQUEST_URI_TOO_LONG


def test_offered_upgrade_is_ignored():
    (_, framing), rest = read(head("Connection: Upgrade", "Upgrade: h2c") + b"rest")
    assert (framing.length, rest) == (0, b"rest")


def test_limit_of_a_header_is_exact():
    line = b"X: " + b"y" * (LIMIT - len(head()) - 5) + b"\r\n"
    fits = head()[:-2] + line + b"\r\n"
    assert len(fits) == LIMIT
    assert read(fits)[0] is not None
    with pytest.raises(RejectedRequestError) as refused:
        read(fits[:-4] + b"y\r\n\r\n")
    assert refused.value.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


def test_header_value_with_a_line_end_cannot_be_written():
    response = Response(HTTPStatus.OK, b"", headers=(("allow", "GET\r\nX-Evil: 1"),))
    with pytest.raises(Exception, match="Illegal header value"):
        written(response, close=False)
