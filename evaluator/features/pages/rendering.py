"""Renders reports as HTML or as JSON, in slices."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from evaluator.core.http.responses import JSON, parts
from evaluator.core.pages import Report
from evaluator.core.policy.strategies import COMPLIANCE
from plimsoll.html import headers
from plimsoll.html.templates import Templates
from plimsoll.http.pieces import unhurried
from plimsoll.http.types import Response

_MINUTE = 60.0
"""Seconds between two points of a series."""
_BATCH = 64
"""Pieces of a template that are encoded together."""
NEGOTIATED = (("vary", "Accept"),)


def sparkline(
    points: Sequence[Sequence[float]], limit: float | None
) -> Mapping[str, object] | None:
    """Return a sparkline 100 wide and 20 high: paths of the mean and of the range, and the limit's height; None without points.

    Minutes without a reading are gaps. Values without bounds are left out.
    """
    some = [one for one in points if all(map(math.isfinite, one))]
    if not some:
        return None
    bounds = [value for one in some for value in (one[1], one[3])]
    if limit is not None and math.isfinite(limit):
        bounds.append(limit)
    low, high, begin = min(bounds), max(bounds), some[0][0]
    width = max(some[-1][0] - begin, _MINUTE)

    def x(at: float) -> str:
        return f"{100 * (at - begin) / width:.1f}"

    def y(value: float) -> str:
        return f"{19 - 18 * (value - low) / (high - low or 1.0):.1f}"

    line, before = [], -math.inf
    for at, _, mean, _ in some:
        line.append(f"{'L' if at - before <= _MINUTE else 'M'}{x(at)} {y(mean)}")
        before = at
    band = [f"M{x(at)} {y(low_)}V{y(high_)}" for at, low_, _, high_ in some]
    shown = limit is not None and math.isfinite(limit)
    return {
        "line": "".join(line) + (f"H{x(some[-1][0] + _MINUTE)}" if len(some) == 1 else ""),
        "band": "".join(band),
        "limit": y(limit) if shown and limit is not None else None,
    }


class Drawing:
    """Draws with the templates of the pages, and those of other features in further `folders`."""

    def __init__(self, *folders: Path) -> None:
        own = Path(__file__).parent / "templates"
        self._templates = Templates(own, *folders, filters={"sparkline": sparkline})

    async def draw(
        self,
        template: str,
        report: Report,
        around: Mapping[str, Any],
        status: HTTPStatus = HTTPStatus.OK,
    ) -> Response:
        """Return a report as a page. The template has it as `page`, with lists and objects in full, beside `around`.

        `compliance` has the strategies whose violations are shown as such.
        """
        await self._templates.load()
        page = dict(report.head)
        for name, entries in report.objects.items():
            page[name] = dict(await unhurried(entries))
        for name, items in report.arrays.items():
            page[name] = await unhurried(items)
        texts = self._templates.pieces(template, {**around, "page": page, "compliance": COMPLIANCE})
        pieces = await unhurried(_encoded(texts))
        extra = (*headers.PAGE, *NEGOTIATED)
        return Response(status, parts(pieces), "text/html; charset=utf-8", extra)


def _encoded(texts: Iterator[str]) -> Iterator[bytes]:
    while batch := "".join(itertools.islice(texts, _BATCH)):
        yield batch.encode()


_READABLE = 64 << 10
"""Largest JSON in bytes that is indented; larger pages are for programs."""
_ENTRIES = 50
"""Entries of a list in one piece of the body."""


def entry(name: str, value: object) -> bytes:
    """Return one entry of a JSON object."""
    return b"%s: %s" % (msgspec.json.encode(name), msgspec.json.encode(value))


async def as_json(report: Report) -> Response:
    """A JSON object: some fields, then lists with one entry a line, readable and greppable.

    Entries are made and encoded in slices. The body stays in pieces: joining megabytes takes milliseconds.
    """
    lists = [
        (name, b"{}", await unhurried(itertools.starmap(entry, entries)))
        for name, entries in report.objects.items()
    ]
    lists += [
        (name, b"[]", await unhurried(map(msgspec.json.encode, entries)))
        for name, entries in report.arrays.items()
    ]
    return _json(report.head, lists)


def _json(head: Mapping[str, Any], lists: Iterable[tuple[str, bytes, Sequence[bytes]]]) -> Response:
    fields = msgspec.json.encode(head)
    if len(fields) < _READABLE:
        fields = msgspec.json.format(fields, indent=2)
    pieces = [fields.removesuffix(b"}").rstrip()]
    for number, (name, brackets, entries) in enumerate(lists):
        begin, end = brackets[:1], brackets[1:]
        comma = b"," if head or number else b""
        pieces.append(b'%s\n  "%s": %s' % (comma, name.encode(), begin))
        for batch in range(0, len(entries), _ENTRIES):
            lines = b",\n    ".join(entries[batch : batch + _ENTRIES])
            pieces.append((b",\n    " if batch else b"\n    ") + lines)
        pieces.append(b"\n  " + end if entries else end)
    pieces.append(b"\n}\n")
    return Response(HTTPStatus.OK, parts(pieces), JSON, headers.UNCACHED)
