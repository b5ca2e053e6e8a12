"""The fields that features add to the JSON of pages. Programs read them: fields may be added, never removed or renamed."""

import json

import pytest

from tests.evaluator.features.pages.conftest import Html, body
from tests.evaluator.features.pages.test_contract import FIELDS, part
from wire.codec import Delta

ADDED = {
    "/": {"evaluator": {"gangs", "scorers"}},
    "/policies/ns/demo": {
        "": {"actions"},
        "actions": {"kinds", "effect", "condition", "limit", "acted", "heldBack", "problems"},
        "nodes.node-a.written": {"taints", "conditions"},
    },
    "/nodes/node-a": {"": {"scorers"}},
}


@pytest.mark.parametrize("target", ADDED)
async def test_page_has_the_fields_that_features_add(pages, demo, target):
    pages.know(demo, pods=[("ns", "web", "demo")])
    pages.report({node: Delta({"m": 10.0, "k": 1.0}) for node in ("node-a", "node-b")})
    found = json.loads(body(await pages.get(target, accept="application/json")))
    for path, fields in ADDED[target].items():
        assert set(part(found, path)) == FIELDS[target].get(path, set()) | fields, path


async def test_node_shows_what_is_written_to_it(pages, demo):
    pages.know(demo)
    found = json.loads(body(await pages.get("/nodes/node-a", accept="application/json")))
    assert found["written"] == {"labels": {}, "taints": [], "conditions": []}


@pytest.mark.parametrize("target", ["/gangs", "/gangs/ns/g"])
async def test_page_of_a_disabled_feature_is_an_error_in_the_form_asked_for(pages, demo, target):
    pages.know(demo)
    response = await pages.get(target)
    assert response.status == 404
    page = Html(body(response))
    assert page.heading == "Not Found"
    for response in (
        await pages.get(target, accept="application/json"),
        await pages.get(f"{target}.json", accept="text/html"),
    ):
        assert response.status == 404
        found = json.loads(body(response))
        assert found["kind"] == "Status"
        assert found["message"] in page.text
