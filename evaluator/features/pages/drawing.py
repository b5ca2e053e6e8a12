"""Draws reports as HTML, in slices."""

import itertools
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from evaluator.core.http.responses import parts
from evaluator.core.pages import Report
from evaluator.core.policy.strategies import COMPLIANCE
from plimsoll.html import headers
from plimsoll.html.templates import Templates
from plimsoll.http.pieces import unhurried
from plimsoll.http.types import Response

_BATCH = 64
"""Pieces of a template that are encoded together."""
NEGOTIATED = (("vary", "Accept"),)


class Drawing:
    """Draws with the templates of the pages, and those of other features in further `folders`."""

    def __init__(self, *folders: Path) -> None:
        self._templates = Templates(Path(__file__).parent / "templates", *folders)

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
