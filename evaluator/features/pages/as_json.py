"""Pages as JSON, in pieces."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from evaluator.core.http.responses import JSON, parts
from evaluator.core.pages import Report
from plimsoll.html import headers
from plimsoll.http.pieces import unhurried
from plimsoll.http.types import Response

_READABLE = 64 << 10
"""Largest JSON in bytes that is indented; larger pages are for programs."""
_BATCH = 50
"""Entries of a list in one piece of the body."""


def entry(name: str, value: object) -> bytes:
    """Return one entry of a JSON object."""
    return b"%s: %s" % (msgspec.json.encode(name), msgspec.json.encode(value))


async def page(report: Report) -> Response:
    """A JSON object: some fields, then lists with one entry a line, readable and greppable.

    Entries are made and encoded in slices. The body stays in pieces: joining megabytes takes milliseconds.
    """
    lists = [
        (name, b"{}", await unhurried(itertools.starmap(entry, found)))
        for name, found in report.objects.items()
    ]
    lists += [
        (name, b"[]", await unhurried(map(msgspec.json.encode, found)))
        for name, found in report.arrays.items()
    ]
    return _response(report.head, lists)


def _response(
    head: Mapping[str, Any], lists: Iterable[tuple[str, bytes, Sequence[bytes]]]
) -> Response:
    fields = msgspec.json.encode(head)
    if len(fields) < _READABLE:
        fields = msgspec.json.format(fields, indent=2)
    pieces = [fields.removesuffix(b"}").rstrip()]
    for number, (name, brackets, entries) in enumerate(lists):
        begin, end = brackets[:1], brackets[1:]
        comma = b"," if head or number else b""
        pieces.append(b'%s\n  "%s": %s' % (comma, name.encode(), begin))
        for batch in range(0, len(entries), _BATCH):
            lines = b",\n    ".join(entries[batch : batch + _BATCH])
            pieces.append((b",\n    " if batch else b"\n    ") + lines)
        pieces.append(b"\n  " + end if entries else end)
    pieces.append(b"\n}\n")
    return Response(HTTPStatus.OK, parts(pieces), JSON, headers.UNCACHED)
