"""The agent's page in Chromium, with hostile names in text files and rules."""

import pytest
import pytest_asyncio

from agent.rules.engine import RuleEngine
from agent.rules.options import RuleOptions
from agent.scrape.endpoints import Endpoints
from agent.scrape.runner import CollectorRunner
from agent.scrape.self_metrics import SelfMetrics
from collectors.interface.sample import CollectorError, Family, Sample
from collectors.textfile import Options, TextFile
from plimsoll.http.addresses import Address
from plimsoll.http.server import Server
from tests import chromium
from tests.browser.conftest import LOOP
from tests.browser.prefix import proxy

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202eabc\u2066"
LONG = "x" * 253


class Fake:
    def __init__(self, error=""):
        self._error = error

    def collect(self):
        if self._error:
            raise CollectorError(self._error)
        samples = [Sample("node_load1", (("cpu", value),), 1.5) for value in (EVIL, LONG, "0")]
        return [Family("node_load1", "gauge", "Load.", tuple(samples))]


@pytest_asyncio.fixture(**LOOP)
async def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    (folder / f"<b>{LONG[:200]}.prom").write_text("node_half 1")
    (folder / "rules.yaml").write_text(
        "groups:\n"
        f"  - name: '{EVIL}'\n"
        "    interval: 1s\n"
        "    rules:\n"
        "      - {record: node_double, expr: node_load1 * 2}\n"
        f"      - {{record: node_{LONG}, expr: node_load1 * {'1 * ' * 200} 2}}\n"
        "      - {record: node_ambiguous, expr: node_load1 / on () node_load1}\n"
    )
    collectors = {"loadavg": Fake(), "cpu": Fake(f"{EVIL} {LONG}")}
    runner = CollectorRunner(
        {**collectors, "textfile": TextFile(Options((str(folder),)), patience=0)}
    )
    engine = RuleEngine(runner, RuleOptions(files=(str(folder / "rules.yaml"),)))
    runner.run()
    engine.look()
    engine.step()
    endpoints = Endpoints(
        runner, SelfMetrics(), node=LONG, telemetry_path="/metrics", recorder=engine
    )
    server = Server(endpoints.answer)
    (address,) = await server.listen([Address("127.0.0.1", 0)])
    yield f"http://{address}/"
    await server.close()


async def test_page_has_no_errors_and_fits(inspector, url):
    await inspector.inspect(url)
    assert inspector.findings == []


async def test_page_works_below_a_prefix(inspector, url):
    async with proxy(url.rstrip("/")) as prefixed:
        await inspector.inspect(prefixed)
    assert inspector.findings == []


async def test_keyboard_reaches_every_control(unreached, url):
    assert await unreached(url) == set()


async def test_page_is_complete_without_javascript(browser, url):
    async with chromium.tab(browser, java_script_enabled=False) as tab:
        await tab.show(url)
        assert tab.errors == []
        text = await tab.page.inner_text("main")
    assert "node_double" in text
    assert "alert(1)" in text
    assert "\u202e" not in text
