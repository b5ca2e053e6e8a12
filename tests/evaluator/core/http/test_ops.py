"""The ops port over a real socket: health, readiness and metrics."""

import re

import aiohttp
import pytest
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

from evaluator.core.http import ops
from tests.evaluator.core.http.ops_port import OpsPort
from wire.codec import Delta


@pytest.fixture
def world():
    return OpsPort()


@pytest.fixture
def waiting_for():
    """What features wait for."""
    return []


@pytest.fixture
async def get(world, waiting_for, serve):
    operations = ops.OpsServer(
        world.decider, world.metrics, pages={}, waiting_for=lambda: waiting_for
    )
    port = (await serve(operations.answer, ops.LIMITS)).address.port
    async with aiohttp.ClientSession() as session:

        async def fetch(path, **more):
            async with session.get(f"http://127.0.0.1:{port}{path}", **more) as response:
                return response.status, await response.text()

        yield fetch


@pytest.fixture
def demo(parsed, rule):
    return parsed("demo", dontschedule=[rule("m Equals 1")])


async def test_healthz_is_ok_from_the_start(get):
    assert await get("/healthz") == (200, "ok\n")


async def test_readyz_is_ok_once_decisions_are_possible(world, get, demo):
    assert await get("/readyz") == (503, "waiting for policies, nodes, pods\n")
    world.know(demo)
    assert await get("/readyz") == (503, "waiting for the first report of 1 node\n")
    world.store.report("node-a", Delta({"m": 1.0}), world.clock.now)
    world.decider.evaluate()
    assert await get("/readyz") == (200, "ok\n")
    world.decider.stop("the end")
    assert await get("/readyz") == (503, "waiting for the end\n")
    assert (await get("/healthz"))[0] == 200


async def test_readyz_waits_for_features_too(world, waiting_for, get):
    waiting_for += ["nodes", "all pods"]
    assert await get("/readyz") == (503, "waiting for policies, nodes, pods, all pods\n")
    world.know()
    assert await get("/readyz") == (503, "waiting for nodes, all pods\n")
    waiting_for.clear()
    assert await get("/readyz") == (200, "ok\n")


async def test_metrics_are_prometheus_text(world, get, demo):
    world.know(demo)
    status, text = await get("/metrics")
    families = {family.name for family in text_string_to_metric_families(text)}
    assert status == 200
    assert {"plimsoll_policies", "plimsoll_ready", "plimsoll_agent_reports"} <= families
    assert all(name.startswith(("plimsoll_", "process_", "python_")) for name in families)


@pytest.mark.parametrize(
    ("accept", "begins", "ends"),
    [
        ("", "# HELP", "\n"),
        ("application/openmetrics-text; version=1.0.0", "# HELP", "\n# EOF\n"),
    ],
)
async def test_sliced_metrics_equal_the_librarys_text(world, get, demo, accept, begins, ends):
    world.know(demo)
    status, text = await get("/metrics", headers={"Accept": accept})
    encode, _ = choose_encoder(accept)
    assert status == 200
    assert text.startswith(begins)
    assert text.endswith(ends)
    assert text.count("# EOF") == ends.count("# EOF")
    assert _steady(text) == _steady(encode(world.metrics.registry).decode())


def _steady(text):
    """The lines without the process metrics, which change by themselves."""
    return [line for line in text.splitlines() if not re.search(r"\b(process|python)_", line)]


@pytest.mark.parametrize("version", ["x", "-", "1..0", "1.0.0&", "²", "\u00a01.0.0", "9" * 5000])
@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
async def test_unknown_version_gets_a_supported_format(get, kind, version):
    status, text = await get("/metrics", headers={"Accept": f"{kind}; version={version}"})
    assert status == 200
    assert text.startswith("# HELP")
