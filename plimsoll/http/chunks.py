"""Decodes chunked bodies, RFC 9112 section 7.1."""

import re
from collections.abc import Iterator
from http import HTTPStatus

from plimsoll.http.fields import FieldLines
from plimsoll.http.types import RejectedRequestError

_SIZE = rb"([0-9A-Fa-f]{1,16})(?:[\t ]*;[\t -~\x80-\xff]*)?\r\n"
_FIRST, _NEXT = re.compile(_SIZE), re.compile(rb"\r\n" + _SIZE)
_FRAMING_BYTES = 4 << 10
_FRAMING_SHARE = 8
"""Chunk sizes, extensions and trailers may take _FRAMING_BYTES plus 1/_FRAMING_SHARE of the body.

Go and curl send chunks of kilobytes. Chunks of one byte would cost a hundred times the CPU of a body with Content-Length.
"""


class Chunks:
    """Decodes the chunks of one body."""

    def __init__(self) -> None:
        self.received = 0
        """Bytes of the body so far."""
        self.rest: bytes | None = None
        """Bytes received after the body; None until the body is complete."""
        self._line = _FIRST
        self._cut = b""  # an incomplete line
        self._left = 0  # remaining bytes of the current chunk
        self._framing = 0  # bytes that are not part of the body
        self._trailers: FieldLines | None = None

    def parts(self, data: bytes) -> Iterator[bytes]:
        """Yield the parts of the body in received data. Raises RejectedRequestError."""
        data, self._cut, at = self._cut + data, b"", 0
        while at < len(data) and self._trailers is None:
            if self._left:
                part = data[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                self.received += len(part)
                yield part
            elif size := self._size(data, at):
                at += size
            else:
                return
        if self._trailers is not None:
            self._end(self._trailers, data[at:])

    def _size(self, data: bytes, at: int) -> int:
        """Read a chunk's size line and set the chunk's size; 0 if the line is incomplete."""
        match = self._line.match(data, at)
        if match is None:
            if data.find(b"\n", at + (self._line is _NEXT) * 2) >= 0:
                raise RejectedRequestError(
                    HTTPStatus.BAD_REQUEST, "not HTTP/1.1: a chunk size that is none"
                )
            self._cut = data[at:]
            self._count(len(self._cut), cut=True)
            return 0
        self._count(match.end() - at)
        self._line = _NEXT
        self._left = int(match[1], 16)
        if not self._left:
            self._trailers = FieldLines()
        return match.end() - at

    def _end(self, trailers: FieldLines, data: bytes) -> None:
        """Read trailers, which are validated and dropped."""
        end = trailers.feed(data)
        self._count(len(data) if end is None else end)
        if end is not None:
            self.rest = data[end:]

    def _count(self, size: int, *, cut: bool = False) -> None:
        framing = self._framing + size
        if framing > _FRAMING_BYTES + self.received // _FRAMING_SHARE:
            raise RejectedRequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"{framing} bytes of chunk sizes, extensions and trailers for a body of {self.received} bytes",
            )
        if not cut:
            self._framing = framing
