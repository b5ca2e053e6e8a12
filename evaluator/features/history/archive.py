"""The actions of all replicas in the Secret `plimsoll-history`: what its keys say, and how a leader changes them. Pure.

A key `actions-<number>` is a chunk: gzip'd JSON lines, the oldest first. Only the last chunk is written again; the oldest one
is removed when all together become too large. `info.json` says since when they are complete. Whoever may write the object may
write anything into it: what is unreadable is counted and costs itself.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec

from evaluator.core.model.names import UNREADABLE
from plimsoll import rfc3339
from plimsoll.steps import Steps
from plimsoll.text import one_line

NAME = "plimsoll-history"
INFO = "info.json"
LARGEST = 512 << 10
"""Bytes of all chunks, compressed."""
FULL = 64 << 10
"""Bytes of the lines of one chunk: a millisecond to compress."""
_LONGEST_CHUNK = 4 * FULL
"""Bytes of lines that are read of one chunk: any more are a bomb."""
MOST = 100_000
"""Lines that are read of one object."""
_LONGEST_INFO = 1 << 10
_AT_ONCE = 50
"""Actions of one step, in less than a millisecond."""
_KEYS = 500
"""Keys looked at in one step."""
_PIECE = 4 << 10
"""Bytes that are decompressed at a time: what precedes damage is read."""
_KEY = re.compile(r"actions-(\d{12})", re.ASCII)
_LAST = 10**12 - 1
LONGEST_TEXT = 1_000
"""Characters of a text."""

_Name = Annotated[str, msgspec.Meta(max_length=510)]
_Long = Annotated[str, msgspec.Meta(max_length=4 * LONGEST_TEXT)]


class StoredAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """An action of a replica; fields as of `Acted`.

    `writer` and `sequence` identify it: the actions of a writer are numbered from 1. `at`: Unix seconds of the writer's clock.
    """

    writer: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]
    sequence: Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
    at: float
    kind: _Name
    policy: Annotated[str, msgspec.Meta(max_length=510, pattern=r"^([^/]+/[^/]+)?\Z")] = ""
    node: _Name = ""
    pod: _Name = ""
    text: _Long = ""
    topic: _Long = ""


class Info(msgspec.Struct, frozen=True):
    """Since when the chunks have every action (Unix seconds), and how many were left out before, for want of room."""

    since: float
    left_out: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)] = 0


class _Chunk(NamedTuple):
    """A chunk as it was read or is to be written. `stored`: the hash of its value in the object."""

    number: int
    stored: int = 0
    size: int = 0
    """Bytes, compressed."""
    actions: int = 0
    newest: float = 0.0
    """When its newest action happened; 0 if none can be read."""

    @property
    def key(self) -> str:
        return _key(self.number)


class _Open(NamedTuple):
    """The readable lines of the chunk that was read last: further ones follow them if it is the last chunk."""

    number: int = 0
    lines: bytes = b""


def _key(number: int) -> str:
    return f"actions-{number:012d}"


class Archive:
    """The object as it was last read."""

    def __init__(self) -> None:
        self.info: Info | None = None
        """None: the object has none, or was not read."""
        self.unreadable = 0
        """Lines, chunks and other keys of the last read that could not be read."""
        self._chunks: Sequence[_Chunk] = ()
        """In their order."""
        self._open = _Open()
        self._foreign: Collection[str] = ()
        """Keys that are none of ours."""

    def read(self, data: Mapping[str, str]) -> Iterator[Sequence[StoredAction]]:
        """Take over the object's data, values in base64; yield the actions of chunks that changed, in steps, which may be empty."""
        known = {chunk.number: chunk for chunk in self._chunks}
        numbers, foreign, room = list[int](), list[str](), MOST
        self.unreadable = 0
        for count, key in enumerate(data):
            if (match := _KEY.fullmatch(key)) and int(match[1]) < _LAST:
                numbers.append(int(match[1]))
            elif key != INFO:
                foreign.append(key)
            if count % _KEYS == 0:
                yield ()
        chunks, opened = list[_Chunk](), self._open
        for number in sorted(numbers):
            value = data[_key(number)]
            chunk = known.get(number)
            if chunk is None or chunk.stored != hash(value):
                chunk = _Chunk(number, hash(value), len(value) * 3 // 4)
                lines = _unpacked(_decoded(value)).splitlines()[:room]
                room -= len(lines)
                readable = bytearray()
                self.unreadable += not lines
                for begin in range(0, len(lines), _AT_ONCE):
                    some = lines[begin : begin + _AT_ONCE]
                    found = [one for one in map(_action, some) if one is not None]
                    self.unreadable += len(some) - len(found)
                    newest = max([chunk.newest, *(one.at for one in found)])
                    chunk = chunk._replace(actions=chunk.actions + len(found), newest=newest)
                    readable += b"".join(map(_line, found))
                    yield found
                opened = _Open(number, bytes(readable))
            chunks.append(chunk)
            yield ()
        self._open = opened
        self._chunks, self._foreign = chunks, foreign
        self.unreadable += len(foreign)
        self.info = self._read_info(data.get(INFO))

    def _read_info(self, value: str | None) -> Info | None:
        if value is None:
            return None
        try:
            found = msgspec.json.decode(_decoded(value)[:_LONGEST_INFO], type=Info)
        except UNREADABLE:
            found = Info(rfc3339.LATEST)
        since = rfc3339.bounded(found.since, rfc3339.LATEST)
        if since is not None and since < rfc3339.LATEST:
            return Info(since, found.left_out)
        self.unreadable += 1
        return self.info

    def change(
        self, actions: Sequence[StoredAction], *, since: float, oldest: float
    ) -> Steps[dict[str, str | None]]:
        """Return the keys to set, and None for those to remove, so that the object has further actions. Changes nothing here.

        `since`: since when these are complete, for an object that does not say. `oldest`: when an action happened at least that
        is kept. Both are Unix seconds.
        """
        info = self.info or Info(since)
        data: dict[str, str | None] = dict.fromkeys(self._foreign)
        chunks, lines = [*self._chunks], b""
        opened = _Chunk(chunks[-1].number + 1 if chunks else 1)
        if chunks and chunks[-1].number == self._open.number and len(self._open.lines) < FULL:
            opened, lines = chunks.pop(), self._open.lines
        for position, action in enumerate(actions):
            line = _line(action)
            if lines and len(lines) + len(line) > FULL:
                chunks.append(_packed(opened, lines, data))
                yield
                opened, lines = _Chunk(opened.number + 1), b""
            lines += line
            newest = max(opened.newest, action.at)
            opened = opened._replace(actions=opened.actions + 1, newest=newest)
            if position % _AT_ONCE == 0:
                yield
        if lines:
            chunks.append(_packed(opened, lines, data))
            yield
        left = sum(chunk.size for chunk in chunks)
        for chunk in chunks[:-1]:
            aged = chunk.newest < oldest
            if left <= LARGEST and not aged:
                break
            left -= chunk.size
            data[chunk.key] = None
            without = 0 if aged else chunk.actions
            info = Info(max(info.since, chunk.newest), info.left_out + without)
        if info != self.info:
            data[INFO] = base64.b64encode(msgspec.json.encode(info)).decode()
        return data


def _packed(chunk: _Chunk, lines: bytes, data: dict[str, str | None]) -> _Chunk:
    """Enter the chunk with these lines into the keys to set; return it with its size."""
    maker = zlib.compressobj(wbits=31)
    packed = maker.compress(lines) + maker.flush()
    data[chunk.key] = base64.b64encode(packed).decode()
    return chunk._replace(size=len(packed))


def _decoded(value: str) -> bytes:
    """Return a value of a Secret; nothing for one that is no base64."""
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        return b""


def _unpacked(packed: bytes) -> bytes:
    """Return the lines of a chunk up to where it is damaged or too long."""
    maker, lines = zlib.decompressobj(wbits=31), bytearray()
    for begin in range(0, len(packed), _PIECE):
        try:
            lines += maker.decompress(
                packed[begin : begin + _PIECE], max(1, _LONGEST_CHUNK - len(lines))
            )
        except zlib.error:
            break
        if len(lines) >= _LONGEST_CHUNK:
            break
    return bytes(lines)


_decode_action = msgspec.json.Decoder(StoredAction).decode


def _action(line: bytes) -> StoredAction | None:
    """Return the action of a line; None if it is unreadable."""
    try:
        found = _decode_action(line)
    except UNREADABLE:
        return None
    at = rfc3339.bounded(found.at, rfc3339.LATEST)
    return found if at is not None and 0 <= at == found.at else None


def printable(action: StoredAction) -> StoredAction:
    """Return an action with texts that are safe to show, whoever wrote them."""
    names = ("policy", "node", "pod", "text", "topic")
    texts = {name: one_line(getattr(action, name), LONGEST_TEXT) for name in names}
    return msgspec.structs.replace(action, **texts)


def _line(action: StoredAction) -> bytes:
    return msgspec.json.encode(action) + b"\n"
