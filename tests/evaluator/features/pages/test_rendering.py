import json
import math
from http import HTTPStatus

import pytest

from evaluator.core.pages.section import Report
from evaluator.features.pages import rendering
from evaluator.features.pages.rendering import DrawnPages
from plimsoll.http.types import Response


async def text_of(report):
    response = await rendering.as_json(report)
    return b"".join(response.body.parts)


@pytest.mark.parametrize("head", [{}, {"total": 1}])
async def test_page_is_one_json_object(head):
    report = Report(head, objects={"nodes": [("a", {})]}, arrays={"names": ["b", "c"]})
    assert json.loads(await text_of(report)) == {**head, "nodes": {"a": {}}, "names": ["b", "c"]}


async def test_report_without_lists_is_its_fields():
    assert json.loads(await text_of(Report({}))) == {}


def test_sparkline_has_the_limit_and_gaps():
    minutes = [(0.0, 1.0, 2.0, 3.0), (60.0, 2.0, 3.0, 4.0), (300.0, 5.0, 5.0, 5.0)]
    made = rendering.sparkline(minutes, 10.0)
    assert made["line"] == "M0.0 17.0L20.0 15.0M100.0 11.0"
    assert made["limit"] == "1.0"
    assert rendering.sparkline([], 1.0) is None
    assert rendering.sparkline([(0.0, math.inf, math.inf, math.inf)], 1.0) is None
    assert rendering.sparkline(minutes, math.inf)["limit"] is None
    assert rendering.sparkline(minutes[:1], None)["line"] == "M0.0 10.0H100.0"


def test_live_pages_take_a_small_share_of_a_core_and_are_drawn_every_twenty_seconds_at_least():
    now = 0.0
    pages = DrawnPages(lambda: now)

    def kept(page, cost):
        drawn = pages.begin(page, "p-1")
        assert pages.newest(page) is drawn
        drawn.answer, drawn.cost = Response(HTTPStatus.OK, b"page"), cost
        pages.end(page, drawn)
        return drawn.until - drawn.begun

    assert kept("cheap", 0.003) == 1.0
    assert kept("one", 0.027) == pytest.approx(2.0)
    assert kept("two", 0.060) == pytest.approx(6.0)
    assert kept("many", 0.3) == 20.0
    now = 100.0  # the others are not live any more
    assert kept("one", 0.027) == pytest.approx(1.8)
    failed = pages.begin("failed", "p-2")
    pages.end("failed", failed)
    assert pages.newest("failed") is None


def test_drawings_are_bounded():
    pages = DrawnPages(lambda: 0.0)
    drawn = [pages.begin(number, "p-1") for number in range(100)]
    assert [number for number in range(100) if pages.newest(number)] == [*range(84, 100)]
    drawn[99].answer = Response(HTTPStatus.OK, b"page")
    for number in range(100):
        assert pages.answer(99, f"p-{number}") is drawn[99].answer
    assert len(drawn[99].readers) <= 16
