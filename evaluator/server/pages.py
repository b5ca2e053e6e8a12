"""Parts that the pages of the operations port share: JSON in pieces, and work in slices."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from evaluator.model.steps import Steps
from plimsoll.http.types import Parts, Response

_SLICE = 0.001
"""Seconds of work on a page before yielding to requests of kube-scheduler."""
_READABLE = 64 << 10
"""Largest JSON in bytes that is indented; larger pages are for programs."""
_BATCH = 50
"""Entries of a list in one piece of the body."""
WAITING = 7
"""Clients that may wait while a page is built."""

T = TypeVar("T")


async def unhurried(pieces: Iterable[T]) -> list[T]:
    """The pieces of a page, yielding to the event loop before, between and after them.

    After them: what they were made from is often freed next.
    """
    await asyncio.sleep(0)
    made, begun = [], time.perf_counter()
    for piece in pieces:
        made.append(piece)
        if (worked := time.perf_counter() - begun) > _SLICE:
            await asyncio.sleep(worked)
            begun = time.perf_counter()
    await asyncio.sleep(0)
    return made


async def stepwise(steps: Steps[T]) -> T:
    """The result of a generator, yielding to the event loop between its steps."""
    done: list[T] = []

    def result() -> Iterator[None]:
        done.append((yield from steps))

    await unhurried(result())
    return done[0]


def parts(pieces: Sequence[bytes]) -> Parts:
    """The pieces joined into one body and cleared."""
    return Parts(sum(map(len, pieces)), pieces)


def entry(name: str, value: object) -> bytes:
    """Return one entry of a JSON object."""
    return b"%s: %s" % (msgspec.json.encode(name), msgspec.json.encode(value))


def page(head: dict[str, Any], **lists: tuple[bytes, Sequence[bytes]]) -> Response:
    """A JSON object: some fields, then lists (brackets, encoded entries) with one entry a line, readable and greppable.

    The body stays in pieces: joining megabytes takes milliseconds.
    """
    fields = msgspec.json.encode(head)
    if len(fields) < _READABLE:
        fields = msgspec.json.format(fields, indent=2)
    pieces = [fields.removesuffix(b"}").rstrip()]
    for name, (brackets, entries) in lists.items():
        begin, end = brackets[:1], brackets[1:]
        pieces.append(b',\n  "%s": %s' % (name.encode(), begin))
        for batch in range(0, len(entries), _BATCH):
            lines = b",\n    ".join(entries[batch : batch + _BATCH])
            pieces.append((b",\n    " if batch else b"\n    ") + lines)
        pieces.append(b"\n  " + end if entries else end)
    pieces.append(b"\n}\n")
    return Response(HTTPStatus.OK, parts(pieces), "application/json")


def error(sentence: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> Response:
    """Return an error as JSON, as a metav1.Status too: kubectl then prints the sentence, through the service proxy as well."""
    fields = {
        "error": sentence,
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": sentence,
        "code": int(status),
    }
    body = msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"
    return Response(status, parts([body]), "application/json")
