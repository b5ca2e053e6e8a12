"""The evaluator's pages with 5,000 nodes, and with names of markup, right-to-left marks and 253 characters."""

import pytest
import pytest_asyncio

from evaluator.core.http import ops
from evaluator.core.policy import parse
from evaluator.features.pages.feature import routes
from evaluator.features.pages.handlers import Reports
from evaluator.features.pages.sources import PageSources
from plimsoll.html.templates import segment
from plimsoll.http.addresses import Address
from plimsoll.http.server import Server
from tests import chromium
from tests.browser.conftest import LOOP
from tests.evaluator.conftest import make_rule, make_tas
from tests.evaluator.core.http.ops_port import OpsPort
from wire.codec import Delta

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODES = 5_000
EVIL = "<img src=x onerror=alert(1)>\u202ecba\u2066'\"&"
LONG = "long" * 63 + "x"  # 253 characters
NAMES = (EVIL, LONG, "a.json")


@pytest_asyncio.fixture(**LOOP)
async def url():
    """The ops port of an evaluator with these names; every second node violates each policy."""
    world = OpsPort()
    rules = [make_rule("m GreaterThan 7")]
    policies = [make_tas(name, namespace=name, dontschedule=rules) for name in NAMES]
    misspelt = [{**rules[0], "metricname": EVIL, "operator": EVIL}]
    policies.append(make_tas("invalid", dontschedule=misspelt))
    nodes = [*NAMES, *(f"node-{number:04}" for number in range(NODES - len(NAMES)))]
    world.know(*map(parse.parse, policies), nodes=nodes)
    for number, node in enumerate(nodes):
        world.store.report(node, Delta({"m": 8.0 - number % 2}), world.clock.now)
    world.decider.evaluate()
    sources = PageSources(world.decider, world.cluster, clock=world.clock)
    operations = ops.OpsServer(world.decider, world.metrics, pages=routes(Reports(sources)))
    server = Server(operations.answer, limits=ops.LIMITS)
    (address,) = await server.listen([Address("127.0.0.1", 0)])
    yield f"http://{address}/"
    await server.close()


def pages(url):
    yield from (
        url,
        f"{url}nodes",
        f"{url}nodes?page=12",
        f"{url}rules",
        f"{url}policies/ns/invalid",
    )
    for name in map(segment, NAMES):
        yield f"{url}policies/{name}/{name}"
        yield f"{url}nodes/{name}"


async def test_pages_have_no_errors_and_fit(inspector, url):
    await inspector.inspect(*pages(url))
    assert inspector.findings == []


async def test_first_page_counts_thousands_of_nodes(browser, url):
    async with chromium.tab(browser) as tab:
        await tab.show(f"{url}nodes")
        text = await tab.page.inner_text("main")
        assert f"{NODES // 2} of {NODES}" in text.replace(",", "")
        assert await tab.page.locator("tbody tr").count() == 200


async def test_names_are_shown_as_text(browser, url):
    async with chromium.tab(browser) as tab:
        await tab.show(f"{url}policies/{segment(EVIL)}/{segment(EVIL)}")
        text = await tab.page.inner_text("main")
        assert await tab.page.locator("main img").count() == 0
    assert "<img src=x onerror=alert(1)>" in text
    assert not {"\u202e", "\u2066"} & set(text)


async def test_search_finds_a_node_among_thousands(browser, url):
    async with chromium.tab(browser) as tab:
        await tab.show(f"{url}nodes")
        await tab.page.fill("input[name=search]", "node-4321")
        await tab.page.keyboard.press("Enter")
        await tab.page.wait_for_url("**search=node-4321**")
        assert await tab.page.locator("tbody tr").count() == 1
        assert "node-4321" in await tab.page.inner_text("tbody")
        assert tab.errors == []
