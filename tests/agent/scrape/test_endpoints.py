import asyncio
import gzip
import threading
from collections.abc import AsyncIterator

import pytest
from prometheus_client import ProcessCollector
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from agent.scrape.endpoints import Endpoints, choose
from agent.scrape.runner import CollectorRunner
from agent.scrape.self_metrics import SelfMetrics
from tests.patience import PATIENCE


@pytest.fixture
def endpoints(source, family) -> Endpoints:
    many = [family(f"node_many_{i}", i) for i in range(100)]
    collector_runner = CollectorRunner(
        {"few": source([family("node_few", 1, l="x")]), "many": source(many)}
    )
    return Endpoints(collector_runner, SelfMetrics(), node="node-a", telemetry_path="/metrics")


@pytest.fixture
async def client(serve, endpoints) -> AsyncIterator[object]:
    return await (await serve(endpoints.answer)).connect()


async def test_metrics_are_text_by_default(client) -> None:
    reply = await client.get("/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b'\nnode_few{l="x"} 1\n' in reply.body
    assert b'\nnode_scrape_collector_success{collector="few"} 1\n' in reply.body
    names = [
        line.split()[2] for line in reply.body.decode().splitlines() if line.startswith("# TYPE")
    ]
    assert names == sorted(names)
    assert len(names) == len(set(names))


async def test_metrics_in_openmetrics_can_be_parsed(client) -> None:
    reply = await client.get("/metrics", "Accept: application/openmetrics-text;version=1.0.0")
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    found = {family.name for family in text_string_to_metric_families(reply.body.decode())}
    assert {"node_few", "node_many_99", "plimsoll_agent_build_info", "python_info"} <= found
    assert b"_created" not in reply.body


async def test_metrics_are_compressed_on_request(client) -> None:
    plain = await client.get("/metrics?collect[]=many")
    small = await client.get("/metrics?collect[]=many", "Accept-Encoding: gzip")
    assert small.headers["content-encoding"] == "gzip"
    assert b"node_many_99 99" in gzip.decompress(small.body)
    assert len(small.body) < len(plain.body) / 3
    assert "content-encoding" not in plain.headers


async def test_scrape_may_select_collectors(client) -> None:
    only = (await client.get("/metrics?collect[]=few")).body
    without = (await client.get("/metrics?exclude[]=many")).body
    for body in (only, without):
        assert b"node_few" in body
        assert b"node_many" not in body


@pytest.mark.parametrize(
    "query", ["collect[]=few&exclude[]=many", "collect[]=cpu", "exclude[]=cpu", "collect%5B%5D="]
)
async def test_contradictory_selection_is_a_400(client, query: str) -> None:
    reply = await client.get(f"/metrics?{query}")
    assert reply.status == 400
    assert b"collect" in reply.body


def test_excluding_everything_leaves_nothing() -> None:
    assert choose({"exclude[]": ["a", "b"]}, ["a", "b"]) == frozenset()
    assert choose({}, ["a", "b"]) is None


async def test_healthz_is_ok_at_once_and_readyz_after_the_first_run(client, endpoints) -> None:
    assert (await client.get("/healthz")).status == 200
    assert (await client.get("/readyz")).status == 503
    endpoints.ready = True
    assert (await client.get("/readyz")).status == 200


async def test_other_paths_and_methods_are_rejected(client) -> None:
    assert (await client.get("/metric")).status == 404
    reply = await client.get("/metrics", method="POST")
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD"
    head = await client.get("/metrics", method="HEAD")
    assert head.status == 200


async def test_scrapes_are_counted_by_status(client) -> None:
    await client.get("/metrics")
    await client.get("/metrics?collect[]=none")
    body = (await client.get("/metrics")).body
    assert b'plimsoll_agent_scrapes_total{code="200"} 1\n' in body
    assert b'plimsoll_agent_scrapes_total{code="400"} 1\n' in body


async def test_concurrent_scrapes_are_bounded(serve, source, family) -> None:
    go_on, entered = threading.Event(), threading.Event()

    def stall() -> None:
        entered.set()
        assert go_on.wait(PATIENCE)

    endpoints = Endpoints(
        CollectorRunner({"slow": source([family("node_a", 1)], before=stall)}),
        SelfMetrics(),
        node="n",
        telemetry_path="/metrics",
        max_requests=1,
    )
    site = await serve(endpoints.answer)
    first, second = await site.connect(), await site.connect()
    try:
        await first.say(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await asyncio.to_thread(entered.wait, PATIENCE)
        refused = await second.get("/metrics")
        assert refused.status == 503
        assert b"which is the limit" in refused.body
        assert (await second.get("/healthz")).status == 200
    finally:
        go_on.set()
    assert (await first.reply()).status == 200
    assert b'scrapes_total{code="503"} 1' in (await second.get("/metrics")).body


async def test_many_scrapes_of_one_slow_collector_delay_no_other_scrape(
    serve, source, family
) -> None:
    go_on = threading.Event()
    slow = source([], before=lambda: go_on.wait(PATIENCE))
    collector_runner = CollectorRunner(
        {"slow": slow, "good": source([family("node_good", 1)])}, timeout=PATIENCE
    )
    endpoints = Endpoints(collector_runner, SelfMetrics(), node="n", telemetry_path="/metrics")
    site = await serve(endpoints.answer)
    waiting = [await site.connect() for _ in range(20)]
    try:
        for client in waiting:
            await client.say(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        reply = await (await site.connect()).get("/metrics?collect[]=good")
        assert b"node_good 1" in reply.body
        assert not go_on.is_set()
    finally:
        go_on.set()
    for client in waiting:
        assert (await client.reply()).status == 200
    assert slow.runs < 10, "waiting requests share a run"


async def test_metrics_path_is_configurable_even_to_the_root(serve, source, family) -> None:
    endpoints = Endpoints(
        CollectorRunner({"a": source([family("node_a", 1)])}),
        SelfMetrics(),
        node="n",
        telemetry_path="/",
    )
    client = await (await serve(endpoints.answer)).connect()
    assert b"node_a 1" in (await client.get("/")).body
    assert (await client.get("/metrics")).status == 404


def names(own: SelfMetrics) -> set[str]:
    return {family.name for family in own.families()}


def test_self_metrics_can_be_disabled_except_build_info() -> None:
    assert names(SelfMetrics(disabled=True)) == {"plimsoll_agent_build_info"}
    everything = names(SelfMetrics())
    assert {
        "process_cpu_seconds_total",
        "python_info",
        "plimsoll_agent_scrapes_total",
    } <= everything
    assert "plimsoll_agent_stream_up" not in everything


def test_process_metrics_agree_with_the_client_library() -> None:
    """Compared with the client library's values for this process."""
    theirs = {
        sample.name: sample.value
        for family in ProcessCollector(registry=None).collect()
        for sample in family.samples
    }
    ours = {f.name: f.samples[0].value for f in SelfMetrics().families() if f.samples}
    assert theirs.keys() <= ours.keys()
    for name in theirs.keys() - {"process_open_fds"}:
        assert ours[name] == pytest.approx(theirs[name], rel=0.1, abs=1.0), name
    assert abs(ours["process_open_fds"] - theirs["process_open_fds"]) <= 2


def test_stream_metric_exists_once_there_is_a_stream() -> None:
    own = SelfMetrics()
    own.watch_stream()
    own.stream_up.set(True)
    (found,) = (f for f in own.families() if f.name == "plimsoll_agent_stream_up")
    assert found.samples[0].value == 1


async def test_textfile_cannot_override_self_metrics(serve, source, family) -> None:
    lie = family("plimsoll_agent_build_info", 0, version="9", pythonversion="9")
    endpoints = Endpoints(
        CollectorRunner({"a": source([lie])}), SelfMetrics(), node="n", telemetry_path="/metrics"
    )
    body = (await (await (await serve(endpoints.answer)).connect()).get("/metrics")).body
    assert body.count(b"# TYPE plimsoll_agent_build_info") == 1
    assert b'version="0' in body
