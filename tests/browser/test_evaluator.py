"""The evaluator's pages in Chromium: every page of a sandbox, below prefixes, without JavaScript, and refreshed in place."""

import asyncio
import contextlib
import datetime
import itertools
import re
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit

import aiohttp
import pytest
import pytest_asyncio

from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import DEPLOYMENTS, NAMESPACES, POLICIES
from sandbox.cluster import ClusterSpec
from tests import chromium
from tests.browser.conftest import LOOP
from tests.browser.prefix import proxy
from tests.patience import PATIENCE
from tests.preloaded import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

KINDS = {"Namespace": NAMESPACES, "TASPolicy": POLICIES, "Deployment": DEPLOYMENTS}
MANIFESTS = (
    "health-metric-demo/00-namespace.yaml",
    "health-metric-demo/10-policy.yaml",
    "health-metric-demo/20-deployment.yaml",
    "node-actions-demo/00-namespace.yaml",
    "node-actions-demo/10-policy.yaml",
    "gang-demo/00-namespace.yaml",
    "gang-demo/10-train.yaml",
)
AMBIGUOUS = """
groups:
  - name: ambiguous
    rules:
      - record: node_ambiguous
        expr: node_cpu_seconds_total / on () node_cpu_seconds_total
"""
KINDS_OF_PAGES = (
    r"",
    r"policies/[^/]+/[^/]+",
    r"nodes",
    r"nodes/[^/]+",
    r"pods",
    r"pods/[^/]+/[^/]+",
    r"gangs",
    r"gangs/[^/]+/[^/]+",
    r"rules",
    r"history",
    r"history/[^/]+/[^/]+",
)


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name == "href" and tag in {"a", "link"}]


@pytest_asyncio.fixture(**LOOP)
async def cluster(tmp_path_factory):
    spec = ClusterSpec(
        dir=tmp_path_factory.mktemp("cluster"), gangs=True, node_actions=True, sync_period=0.5
    )
    async with Cluster(spec) as running:
        for obj in itertools.chain.from_iterable(
            manifests.load(manifests.folder() / name) for name in MANIFESTS
        ):
            await ensure(running.client, KINDS[obj["kind"]], obj)
        for node, health in zip(running.spec.nodes, (0, 1, 2), strict=True):
            text = f"node_health_metric {health}\nnode_disk_errors {health // 2}\n"
            (running.node_metrics(node) / "text.prom").write_text(text)
        (running.rules / "ambiguous.yaml").write_text(AMBIGUOUS)
        yield running


@pytest_asyncio.fixture(**LOOP)
async def ops(cluster):
    """The URL of `/` once the pages have something to show: violating nodes, pods, a gang and a failing rule."""
    url = f"{cluster.endpoints.ops}/"
    signs = {"nodes": "node-actions-demo/disk-errors", "pods": "demo-app", "gangs": "train"}
    signs |= dict.fromkeys(("rules", "nodes/node-a"), "node_ambiguous")
    async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE):
        for path, sign in signs.items():
            while sign not in await fetch(session, url + path):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    return url


async def fetch(session, url):
    async with session.get(url, headers={"accept": "text/html"}) as response:
        assert response.status == 200, url
        return await response.text()


async def crawl(start):
    """Return the first page of each kind, and all links of these; every link must have an answer."""
    found, checked = {}, set()
    async with aiohttp.ClientSession() as session:
        waiting = [start]
        while waiting:
            url = waiting.pop(0)
            path = urlsplit(url).path.removeprefix(urlsplit(start).path)
            kind = next((k for k in KINDS_OF_PAGES if re.fullmatch(k, path)), None)
            if kind is None or kind in found:
                continue
            found[kind] = url
            for link in Links(await fetch(session, url)).found:
                target, _ = urldefrag(urljoin(url, link))
                if target.startswith("data:") or target in checked:
                    continue
                assert target.startswith(start), f"{url} leads out: {link}"
                checked.add(target)
                async with session.get(target) as response:
                    assert response.status == 200, f"{url}: {link}"
                waiting.append(target)
    assert found.keys() == set(KINDS_OF_PAGES)
    return list(found.values())


async def test_every_page_has_no_errors_and_fits(inspector, ops):
    await inspector.inspect(*await crawl(ops))
    assert inspector.findings == []
    assert inspector.opened == len(KINDS_OF_PAGES)


async def test_pages_work_below_a_prefix(inspector, ops):
    async with proxy(ops.rstrip("/")) as prefixed:
        await inspector.look_at(*await crawl(prefixed))
    assert inspector.findings == []


async def test_pages_work_behind_the_service_proxy(inspector, cluster, ops):
    service = "/api/v1/namespaces/plimsoll/services/http:plimsoll-evaluator:ops/proxy/"
    await inspector.look_at(*await crawl(cluster.endpoints.api + service))
    assert inspector.findings == []


async def test_pages_are_complete_without_javascript(browser, ops):
    pages = await crawl(ops)
    async with chromium.tab(browser, java_script_enabled=False) as tab:
        for url in pages:
            await tab.show(url)
            assert tab.errors == []
            assert len(await tab.page.inner_text("main")) > 50


async def test_keyboard_reaches_every_control(unreached, ops):
    for url in (ops, f"{ops}nodes", f"{ops}policies/health-metric-demo/demo-policy"):
        assert await unreached(url) == set()


async def test_page_refreshes_in_place_and_keeps_focus_and_scroll(browser, ops, cluster):
    node = cluster.spec.nodes[0]
    async with chromium.tab(browser, viewport={"width": 800, "height": 300}) as tab:
        page = tab.page
        await page.clock.install()
        await tab.show(f"{ops}nodes/{node}")
        await page.evaluate("window.kept = true")
        await page.evaluate("document.querySelector('main a').focus(); scrollTo(0, 40)")
        focused = await page.evaluate("document.activeElement.href")
        assert "violated, enforced" not in await page.inner_text("main")
        (cluster.node_metrics(node) / "text.prom").write_text(
            "node_health_metric 1\nnode_disk_errors 0\n"
        )
        async with asyncio.timeout(PATIENCE):
            while "violated, enforced" not in await page.inner_text("main"):
                await page.clock.fast_forward(11_000)
                await asyncio.sleep(0.1)
        assert await page.evaluate("window.kept")
        assert await page.evaluate("document.activeElement.href") == focused
        assert await page.evaluate("scrollY") == 40
        assert tab.errors == []


async def test_live_page_shows_a_change_at_once(browser, ops, cluster):
    """Its clock stands still, so no timer refreshes it: only an event does. Times are local, with UTC as the title."""
    node = cluster.spec.nodes[0]
    async with chromium.tab(browser, timezone_id="Asia/Kolkata") as tab:
        page = tab.page
        await page.clock.install()
        await page.clock.pause_at(datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1))
        (cluster.node_metrics(node) / "text.prom").write_text(
            "node_health_metric 1\nnode_disk_errors 0\n"
        )
        await tab.show(f"{ops}nodes/{node}")
        rows = page.locator(".timeline tbody")
        for health in (0, 1, 0, 1):
            before = await rows.inner_text()
            text = f"node_health_metric {health}\nnode_disk_errors 0\n"
            (cluster.node_metrics(node) / "text.prom").write_text(text)
            async with asyncio.timeout(PATIENCE):
                while await rows.inner_text() == before:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        title = await page.locator("main time").first.get_attribute("title")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", title)
        assert "UTC" not in await page.locator("main time").first.inner_text()
        assert tab.errors == []


async def test_ten_live_pages_show_a_change_at_once(browser, ops, cluster):
    """Five pages, each in a light and in a dark browser; their clocks stand still, so only events refresh them."""
    policy, node = "health-metric-demo/demo-policy", cluster.spec.nodes[0]
    file = cluster.node_metrics(node) / "text.prom"
    paths = ("", f"policies/{policy}", f"nodes/{node}", "history", f"history/{policy}")
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    async with contextlib.AsyncExitStack() as stack:
        tabs = []
        for scheme, path in itertools.product(("light", "dark"), paths):
            opened = chromium.tab(browser, color_scheme=scheme)
            tab = await stack.enter_async_context(opened)
            await tab.page.clock.install()
            await tab.page.clock.pause_at(later)
            await tab.show(f"{ops}{path}")
            tabs.append(tab)
        records = [tab.page.locator("main table:last-of-type").last for tab in tabs]
        before = [await one.inner_text() for one in records]
        for health in (1, 0):  # whichever it was, one of both is a change
            file.write_text(f"node_health_metric {health}\nnode_disk_errors 0\n")
            await asyncio.sleep(2 * cluster.spec.sync_period)
        async with asyncio.timeout(PATIENCE):
            for one, was in zip(records, before, strict=True):
                while await one.inner_text() == was:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        assert [tab.errors for tab in tabs] == [[]] * 10


async def test_hidden_and_paused_pages_are_not_refreshed(browser, ops):
    async with chromium.tab(browser) as tab:
        page = tab.page
        await page.clock.install()
        await tab.show(ops)

        async def fetched():
            """The refreshes in a minute of the page's clock."""
            before = len(tab.requests)
            for _ in range(6):
                await page.clock.run_for(10_000)
                await page.wait_for_load_state("networkidle")
            return len(tab.requests) - before

        def events(request):
            return request.resource_type == "eventsource"

        async def hide(hidden):
            await page.evaluate(
                "hidden => { Object.defineProperty(document, 'hidden', "
                "{ value: hidden, configurable: true }); "
                "document.dispatchEvent(new Event('visibilitychange')); }",
                hidden,
            )

        assert await fetched() > 0
        async with page.expect_event("requestfailed", events):
            await hide(True)  # and its stream of events is closed
        assert await fetched() == 0
        async with page.expect_request(events):
            await hide(False)
        assert await fetched() > 0
        await page.get_by_role("button", name="Pause refresh").click()
        assert await fetched() == 0
        await page.get_by_role("button", name="Resume refresh").click()
        assert await fetched() > 0
        assert tab.errors == []
