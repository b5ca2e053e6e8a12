import json

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
