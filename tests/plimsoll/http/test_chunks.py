"""Chunked bodies: parsing does not depend on how they are split, and overhead is bounded."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.http.chunks import Chunks
from plimsoll.http.types import RejectedRequestError

BODY = b"hello, " + b"x" * 300
WHOLE = b'7;a="b c"\r\nhello, \r\n0012C\r\n%s\r\n0;last\r\nX-Sum: 1\r\n\r\n' % BODY[7:]
NEXT = b"GET / HTTP/1.1\r\n"


def read(raw, cuts=()):
    """Parse `raw` in pieces; return the body and the following bytes, or None if the body has no end."""
    chunks, found = Chunks(), bytearray()
    for begin, end in itertools.pairwise([0, *sorted(cuts), len(raw)]):
        if chunks.rest is None:
            for part in chunks.parts(raw[begin:end]):
                found += part
        else:
            chunks.rest += raw[begin:end]
    return bytes(found), chunks.rest


@given(cuts=st.lists(st.integers(0, len(WHOLE + NEXT)), max_size=12))
def test_body_may_be_split_anywhere_and_following_bytes_are_kept(cuts):
    assert read(WHOLE + NEXT, cuts) == (BODY, NEXT)


def test_body_may_arrive_byte_by_byte():
    assert read(WHOLE, range(1, len(WHOLE))) == (BODY, b"")


def test_truncated_body_has_no_end():
    assert [end for end in range(len(WHOLE)) if read(WHOLE[:end])[1] is not None] == []


@pytest.mark.parametrize(
    "raw",
    [
        b"5;a\rb\r\nhello\r\n0\r\n\r\n",
        b"5;a\0b\r\nhello\r\n0\r\n\r\n",
        b"5;a\nhello\r\n0\r\n\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX: y\n\r\n",
        b"5\r\nhello\r\n0\r\nX: y\r\n\n",
        b"5\r\nhello\r\n0\r\nX: y\n\n",
        b"5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX: \ry\r\n\r\n",
        b"5\r\nhello\r\n0\n\r\n",
        b"%s\r\nhello\r\n0\r\n\r\n" % (b"0" * 16 + b"5"),
    ],
)
def test_ambiguous_chunk_is_a_400(raw):
    with pytest.raises(RejectedRequestError) as refused:
        read(raw)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("raw", "most"),
    [
        (b"1\r\n \r\n" * 100_000, 1_000),
        (b"8\r\n12345678\r\n" * 100_000, 1_500),
        (b"1;" + b"x" * 100_000, 0),
        (b"1;xxxxxxxxxxxxxxxx\r\n \r\n" * 100_000, 200),
    ],
    ids=["one byte a chunk", "eight bytes a chunk", "one extension", "extensions"],
)
@pytest.mark.parametrize("size", [700, 16_384])
def test_flood_of_small_chunks_is_rejected_early(raw, most, size):
    taken = []
    pieces = (raw[at : at + size] for at in range(0, len(raw), size))
    with pytest.raises(RejectedRequestError) as refused:
        taken.extend(parts_of(pieces))
    assert refused.value.status == 413
    assert len(taken) <= most


def parts_of(pieces):
    chunks = Chunks()
    for piece in pieces:
        yield from chunks.parts(piece)


def test_endless_trailers_are_rejected():
    trailers = itertools.repeat(b"X: " + b"y" * 500 + b"\r\n", 20)
    with pytest.raises(RejectedRequestError) as refused:
        list(parts_of([b"1\r\nx\r\n0\r\n", *trailers]))
    assert refused.value.status == 413


def test_small_chunks_of_common_clients_are_accepted():
    """Go's smallest chunks are some hundred bytes."""
    chunks = Chunks()
    raw = b"64\r\n%s\r\n" % (b"x" * 100) * 5_000 + b"0\r\n\r\n"
    assert sum(map(len, chunks.parts(raw))) == 500_000
    assert chunks.rest == b""
