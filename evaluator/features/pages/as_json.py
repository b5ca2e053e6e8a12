"""Pages as JSON, in pieces."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from evaluator.features.pages.report import Report
from plimsoll.html import headers
from plimsoll.http.pieces import unhurried
from plimsoll.http.types import Parts, Response

_TYPE = "application/json"
_READABLE = 64 << 10
"""Largest JSON in bytes that is indented; larger pages are for programs."""
_BATCH = 50
"""Entries of a list in one piece of the body."""


def parts(pieces: Sequence[bytes]) -> Parts:
    """The pieces joined into one body and cleared."""
    return Parts(sum(map(len, pieces)), pieces)


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
    for name, brackets, entries in lists:
        begin, end = brackets[:1], brackets[1:]
        pieces.append(b',\n  "%s": %s' % (name.encode(), begin))
        for batch in range(0, len(entries), _BATCH):
            lines = b",\n    ".join(entries[batch : batch + _BATCH])
            pieces.append((b",\n    " if batch else b"\n    ") + lines)
        pieces.append(b"\n  " + end if entries else end)
    pieces.append(b"\n}\n")
    return Response(HTTPStatus.OK, parts(pieces), _TYPE, headers.UNCACHED)


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
    return Response(status, parts([body]), _TYPE, headers.UNCACHED)
