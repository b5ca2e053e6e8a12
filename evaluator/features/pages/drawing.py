"""Draws reports as HTML, in slices."""

import itertools
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from evaluator.features.pages.as_json import parts
from evaluator.features.pages.report import Report
from plimsoll.html import headers
from plimsoll.html.templates import Templates
from plimsoll.http.pieces import unhurried
from plimsoll.http.types import Response

_BATCH = 64
"""Pieces of a template that are encoded together."""
NEGOTIATED = (("vary", "Accept"),)


_TEMPLATES = Templates(Path(__file__).parent / "templates")


async def draw(
    template: str, report: Report, around: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK
) -> Response:
    """Return a report as a page. The template has it as `page`, with lists and objects in full, beside `around`."""
    await _TEMPLATES.load()
    page = dict(report.head)
    for name, entries in report.objects.items():
        page[name] = dict(await unhurried(entries))
    for name, items in report.arrays.items():
        page[name] = await unhurried(items)
    texts = _TEMPLATES.pieces(template, {**around, "page": page})
    pieces = await unhurried(_encoded(texts))
    extra = (*headers.PAGE, *NEGOTIATED)
    return Response(status, parts(pieces), "text/html; charset=utf-8", extra)


def _encoded(texts: Iterator[str]) -> Iterator[bytes]:
    while batch := "".join(itertools.islice(texts, _BATCH)):
        yield batch.encode()
