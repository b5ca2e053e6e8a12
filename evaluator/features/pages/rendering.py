"""Renders reports as HTML or as JSON, in slices."""

import itertools
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup

from evaluator.core.http.responses import JSON, parts
from evaluator.core.page_fields import Fields
from evaluator.core.pages.section import Report
from evaluator.core.policy.strategies import COMPLIANCE
from plimsoll.html import headers
from plimsoll.html.templates import Templates, link, segment
from plimsoll.http.pieces import unhurried
from plimsoll.http.types import Response

_MINUTE = 60.0
"""Seconds between two points of a series."""
_BATCH, _PART = 8, 64
"""Pieces of a template that are drawn in one step, and steps whose text is one part of the body."""
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


def path(runs: Iterable[Sequence[Any]], word: str, top: int, height: int) -> str:
    """Return the SVG path of the runs of a strip in one state: bars of some height."""
    return "".join(
        f"M{begin} {top}h{width}v{height}h-{width}z"
        for begin, width, found in runs
        if found == word
    )


def object_link(section: str) -> Callable[[str, str], Markup]:
    """Return a function that links to a namespaced object, by the root and namespace/name."""

    @lru_cache(maxsize=4096)
    def made(root: str, named: str) -> Markup:
        namespace, _, rest = named.partition("/")
        return link(root, f"{section}/{segment(namespace)}/{segment(rest)}", named)

    return made


@lru_cache(maxsize=4096)
def node_link(root: str, node: str) -> Markup:
    """Return a link to a node."""
    return link(root, f"nodes/{segment(node)}", node)


_FUNCTIONS: Mapping[str, Callable[..., str]] = {
    "html_policy": object_link("policies"),
    "html_pod": object_link("pods"),
    "html_gang": object_link("gangs"),
    "html_node": node_link,
}


class Drawing:
    """Draws with the templates of the pages, and those of other features in further `folders`."""

    def __init__(self, *folders: Path) -> None:
        own = Path(__file__).parent / "templates"
        filters: dict[str, Callable[..., Any]] = {"sparkline": sparkline, "path": path}
        self._templates = Templates(own, *folders, filters=filters, functions=_FUNCTIONS)

    async def made(
        self, template: str, build: Callable[[], Awaitable[Report]], around: Mapping[str, Any]
    ) -> Response:
        """Build a report and return it as a page. Raises PageError."""
        return await self.draw(template, await build(), around)

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
        page = msgspec.to_builtins(report.head)
        for name, entries in report.objects.items():
            plain = ((key, msgspec.to_builtins(one)) for key, one in entries)
            page[name] = dict(await unhurried(plain))
        for name, items in report.arrays.items():
            page[name] = await unhurried(map(msgspec.to_builtins, items))
        texts = self._templates.pieces(template, {**around, "page": page, "compliance": COMPLIANCE})
        pieces = await unhurried(_encoded(texts))
        begins = range(0, len(pieces), _PART)
        joined = [b"".join(pieces[begin : begin + _PART]) for begin in begins]
        extra = (*headers.PAGE, *NEGOTIATED)
        return Response(status, parts(joined), "text/html; charset=utf-8", extra)


def _encoded(texts: Iterator[str]) -> Iterator[bytes]:
    while batch := "".join(itertools.islice(texts, _BATCH)):
        yield batch.encode()


_LEAST, _MOST = 1.0, 20.0
"""Seconds between two drawings of a live page."""
_SHARE = 0.015
"""Share of a core that all live pages may take, as far as `_MOST` permits."""
_KEPT = 16
"""Drawings that are kept: more than pages can be live."""
_IN_USE = 2 * _MOST
"""Seconds after which a page that was not drawn again is not live any more."""


@dataclass(eq=False)
class Drawn:
    """A page as last drawn: `position` is of the newest record then. `answer` is None while it is being drawn."""

    position: str
    begun: float
    until: float = math.inf
    """When it may be drawn again for live pages (seconds)."""
    cost: float = 0.0
    """CPU time in seconds."""
    answer: Response | None = None
    readers: set[str] = field(default_factory=set)
    """Positions that readers gave who got it."""


class DrawnPages:
    """The last drawing of each page, which all its live readers share, and how soon it is drawn again.

    The more CPU time the live pages take, the longer each drawing is kept. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pages: OrderedDict[Hashable, Drawn] = OrderedDict()

    def newest(self, page: Hashable) -> Drawn | None:
        """Return the drawing of a page that is recent enough for its live readers; it may not be finished."""
        drawn = self._pages.get(page)
        return drawn if drawn is not None and self._clock() < drawn.until else None

    def answer(self, page: Hashable, position: str) -> Response | None:
        """Return a recent drawing for a reader who knows a position; None if the page must be drawn."""
        drawn = self.newest(page)
        if drawn is None or drawn.answer is None:
            return None
        if len(drawn.readers) < _KEPT:
            drawn.readers.add(position)
        return drawn.answer

    def begin(self, page: Hashable, position: str) -> Drawn:
        """Return a drawing that begins now. Call `end` when it is finished or failed."""
        drawn = self._pages[page] = Drawn(position, self._clock(), readers={position})
        self._pages.move_to_end(page)
        while len(self._pages) > _KEPT:
            self._pages.popitem(last=False)
        return drawn

    def end(self, page: Hashable, drawn: Drawn) -> None:
        """Share a drawing that has an answer, and forget one without."""
        if self._pages.get(page) is not drawn:
            return
        if drawn.answer is None:
            del self._pages[page]
            return
        live = (one.cost for one in self._pages.values() if drawn.begun - one.begun < _IN_USE)
        drawn.until = drawn.begun + min(max(_LEAST, sum(live) / _SHARE), _MOST)


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


def _json(head: Fields, lists: Iterable[tuple[str, bytes, Sequence[bytes]]]) -> Response:
    fields = msgspec.json.encode(head)
    if len(fields) < _READABLE:
        fields = msgspec.json.format(fields, indent=2)
    pieces = [fields.removesuffix(b"}").rstrip()]
    for number, (name, brackets, entries) in enumerate(lists):
        begin, end = brackets[:1], brackets[1:]
        comma = b"," if len(fields) > len(b"{}") or number else b""
        pieces.append(b'%s\n  "%s": %s' % (comma, name.encode(), begin))
        for batch in range(0, len(entries), _ENTRIES):
            lines = b",\n    ".join(entries[batch : batch + _ENTRIES])
            pieces.append((b",\n    " if batch else b"\n    ") + lines)
        pieces.append(b"\n  " + end if entries else end)
    pieces.append(b"\n}\n")
    return Response(HTTPStatus.OK, parts(pieces), JSON, headers.UNCACHED)
