"""The markup of the pages: links, tables, and names of others that change nothing of it."""

import re
from dataclasses import replace
from urllib.parse import unquote, urlencode, urljoin, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeMeta, NodeSpec, Taint
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Label, Operator, Policy, Rule, Strategy
from tests.evaluator.features.pages.conftest import Html, PagesOfPolicies, body, filled
from tests.examples import examples
from wire.codec import Delta

PREFIX = "http://host:1/api/v1/namespaces/plimsoll/services/plimsoll-evaluator:ops/proxy"


HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\u202egnirts\u2066\u200f",
    "a%2Fb",
    "&lt;b&gt;",
    "{{ 7 * 7 }}{% raw %}",
    "x" * 253,
    "a.json",
    "items",
    "\ud800".encode("utf-8", "replace").decode(),
    "nodes?state=all#main",
)


async def crawl(pages, start):
    """Follow every link below the prefix, and return the pages by path and query."""
    found, left = {}, [f"{PREFIX}{start}"]
    while left:
        url = left.pop()
        assert url.startswith(f"{PREFIX}/"), url
        parts = urlsplit(url.removeprefix(PREFIX))
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        if target in found or len(found) > 400:
            continue
        response = await pages.get(target)
        assert response.status == 200, (target, body(response))
        found[target] = response
        if response.content_type.startswith("text/html"):
            page = Html(body(response))
            links = [one["href"] for one in (*page.all("a"), *page.all("link"))]
            links += [one["src"] for one in page.all("script")]
            left += [urljoin(url, link) for link in links if not link.startswith(("#", "data:"))]
    return found


@pytest.mark.parametrize("start", ["/", "/nodes/", "/policies/ns/demo/"])
async def test_every_link_leads_to_a_page_below_the_prefix(pages, demo, start):
    found = await crawl(filled(pages, demo), start)
    assert {"/policies/ns/demo", "/nodes/a", "/pods/ns/web", "/rules", "/nodes?state=all"} <= set(
        found
    )
    assert {urlsplit(target).path.rpartition(".")[2] for target in found} >= {"css", "js", "json"}


async def test_every_link_of_hostile_names_leads_to_its_page(parsed, rule):
    names = [name for name in HOSTILE if "/" not in name]
    policies = [parsed(name, dontschedule=[rule("m Equals 1")]) for name in names]
    pages = PagesOfPolicies()
    pages.know(*policies, nodes=names, pods=[("ns", name, name) for name in names])
    pages.report({name: Delta({"m": 1.0}) for name in names})
    found = await crawl(pages, "/")
    seen = {unquote(urlsplit(target).path) for target in found}
    for name in names:
        assert {f"/policies/ns/{name}", f"/nodes/{name}", f"/pods/ns/{name}"} <= seen


def shape(text):
    """Return the elements of a page with the names of their attributes, without texts and values."""
    return [(tag, sorted(attributes)) for tag, attributes in Html(text).elements]


@settings(max_examples=examples(15), deadline=None)
@given(name=st.text(min_size=1, max_size=40).filter(lambda name: name not in {".", ".."}))
async def test_no_name_changes_the_elements_of_a_page(name):
    await check_elements(name)


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_hostile_name_changes_the_elements_of_a_page(name):
    await check_elements(name)


def policy_of(name):
    """A policy with this name, metric, label, problem and status."""
    key = PolicyKey("ns", name)
    rule = Rule(name, Operator.EQUALS, 1.0, written=name)
    return Policy(
        key,
        {
            StrategyName.DONTSCHEDULE: Strategy((rule,)),
            StrategyName.LABELING: Strategy((replace(rule, labels=(Label(name, name),)),)),
            StrategyName.SCHEDULEONMETRIC: Strategy((rule,)),
        },
        problems=(name,),
        warnings=(name,),
        uid="uid",
        status={"message": name, "conditions": [dict.fromkeys(("type", "message"), name)]},
        observed_by=name,
    )


async def drawn(name):
    """Return all pages of a cluster in which everything has this name."""
    pages = PagesOfPolicies(agents=lambda: 1, leader=lambda: name)
    meta = NodeMeta(name=name, labels={name: name}, owned_labels=frozenset({name}))
    taints = [Taint(f"plimsoll.io/{name}", name, name)]
    pages.know(
        policy_of(name), nodes=[Node(meta, NodeSpec(taints=taints))], pods=[("ns", name, name)]
    )
    pages.report({name: Delta({name: 1.0})})
    texts = dict.fromkeys(("group", "rule", "reason", "text"), f"x{name}"[:200])
    pages.report_failing(name, texts, {**texts, "file": f"/{name}"[:200]})
    query = urlencode({"search": name, "state": name})
    lists = ("/", "/nodes", "/pods", "/rules", f"/nodes?{query}")
    texts = [body(await pages.get(path)) for path in lists]
    links = {
        one["href"]
        for text in texts[:-1]
        for one in Html(text).all("a")
        if re.match(r"\./(policies|nodes|pods)/", one["href"])
    }
    assert len(links) == 3
    for link in sorted(links, key=lambda link: link.split("/")[1]):
        response = await pages.get(link.removeprefix("."))
        assert response.status == 200
        texts.append(body(response))
    return texts


PLAIN = []
"""The elements of all pages with a plain name."""


async def check_elements(name):
    """All pages have the same elements as with a plain name, and no mark that reorders text."""
    hostile = await drawn(name)
    if not PLAIN:
        PLAIN.extend(shape(text) for text in await drawn("plain"))
    assert [shape(text) for text in hostile] == PLAIN
    assert not {"\u202e", "\u2066", "\u200f", "\u0000"} & set("".join(hostile))


async def test_tables_have_headers_with_a_scope_and_can_be_scrolled_by_keyboard(pages, demo):
    filled(pages, demo)
    for path in ("/", "/policies/ns/demo", "/nodes", "/nodes/a", "/pods", "/pods/ns/web", "/rules"):
        page = await pages.html(path)
        assert all(one.get("scope") for one in page.all("th")), path
        regions = [one for one in page.all("div") if one.get("class") == "table"]
        assert regions
        assert all(one["tabindex"] == "0" and one["aria-label"] for one in regions)
        assert page.all("main")[0]["id"] == "main"
        assert page.all("a")[0] == {"class": "skip", "href": "#main"}
        labelled = {one["for"] for one in page.all("label")}
        shown = [one for one in page.all("input") if one.get("type") != "hidden"]
        assert all(one["id"] in labelled for one in shown)
        assert page.all("html")[0]["lang"] == "en"
        identifiers = [one["id"] for _, one in page.elements if "id" in one]
        assert len(identifiers) == len(set(identifiers))
