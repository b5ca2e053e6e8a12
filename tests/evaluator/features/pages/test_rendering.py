import json
import math

import pytest

from evaluator.core.pages import Report
from evaluator.features.pages import rendering


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
