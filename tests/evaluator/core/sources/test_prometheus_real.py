"""A real Prometheus scraping real agents: from a file on a node to the scheduler's answer."""

import asyncio
import contextlib
import json
import math
import re
import shutil
import sys
from pathlib import Path

import aiohttp
import pytest

from evaluator.core.model.names import ObjectMeta
from evaluator.core.model.node import Address, Node, NodeStatus
from evaluator.core.sources.answer import NodeNames, SourceError
from evaluator.core.sources.prometheus import Access, Prometheus, Queries, parse_queries
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is not on PATH"),
]

ROOT = Path(__file__).parents[4]


class Fleet:
    """Agents with a textfile directory each, and a Prometheus that scrapes them."""

    def __init__(self, run, folder):
        self._run = run
        self._folder = folder
        self.agents = {}
        self.url = ""

    def write(self, node, text):
        (self._folder / node).mkdir(exist_ok=True)
        half = self._folder / node / "half"
        half.write_text(text)
        half.rename(self._folder / node / "text.prom")

    async def agent(self, node):
        """Start a node's agent; return its scrape address."""
        (self._folder / node).mkdir(exist_ok=True)
        only = ("--collector.disable-defaults", "--collector.textfile")
        agent = await self._run(
            *(sys.executable, "-P", "-m", "agent", f"--node.name={node}", *only),
            "--web.listen-address=127.0.0.1:0",
            f"--collector.textfile.directory={self._folder / node}",
        )
        self.agents[node] = agent
        return (await agent.said(r"msg=listening address=(\S+)"))[1]

    async def prometheus(self, **targets):
        """Scrape `node=address` with that node as a label; `_node=address` without."""
        groups = [
            {"targets": [address], **({} if node.startswith("_") else {"labels": {"node": node}})}
            for node, address in targets.items()
        ]
        job = {"job_name": "agents", "scrape_interval": "100ms", "scrape_timeout": "100ms"}
        config = {"scrape_configs": [{**job, "static_configs": groups}]}
        (self._folder / "prometheus.yml").write_text(json.dumps(config))
        program = await self._run(
            "prometheus",
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
            "--log.level=info",
        )
        port = (await program.said(r"Listening on.*127\.0\.0\.1:(\d+)"))[1]
        self.url = f"http://127.0.0.1:{port}"


@pytest.fixture
def fleet(run, tmp_path):
    return Fleet(run, tmp_path)


NODES = [
    Node(ObjectMeta("node-a")),
    Node(ObjectMeta("node-b"), status=NodeStatus(addresses=[Address("InternalIP", "127.0.0.1")])),
]


@pytest.fixture
async def source(fleet, tmp_path):
    """Start Prometheus with two agents, one joined by label and one by address."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(queries=""):
            a, b = await asyncio.gather(fleet.agent("node-a"), fleet.agent("node-b"))
            await fleet.prometheus(**{"node-a": a, "_": b})
            (tmp_path / "queries.yaml").write_text(queries)
            made = Prometheus(
                Access(fleet.url),
                Queries(str(tmp_path / "queries.yaml")),
                lambda: NodeNames(NODES, "node").node,
                timeout=5.0,
            )
            stack.push_async_callback(made.close)
            return made

        yield start


async def settled(source, metric, wanted):
    """Query until exactly these values, or this error, are returned; Prometheus scrapes at its own times."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                answer = await source.fetch(metric)
                found = {node: reading.value for node, reading in answer.readings.items()}
            except SourceError as error:
                found = error.reason
            if found == wanted:
                return
            await asyncio.sleep(0.02)


async def test_file_on_a_node_becomes_a_reading(fleet, source):
    fleet.write("node-a", 'node_health_metric 1\nodd NaN\nmany{x="1"} 1\nmany{x="2"} 2\nload 4\n')
    fleet.write("node-b", 'node_health_metric 0\nodd +Inf\nmany{x="1"} 1\nload 8\n')
    queries = (
        "twice: 2 * load\nbusy: sum by (node, instance) (many)\nwrong: sum(\nno_node: sum(many)\n"
    )
    asked = await source(queries)

    await settled(asked, "health_metric", {"node-a": 1.0, "node-b": 0.0})
    await settled(asked, "node_health_metric", {"node-a": 1.0, "node-b": 0.0})
    await settled(asked, "twice", {"node-a": 8.0, "node-b": 16.0})
    await settled(asked, "busy", {"node-a": 3.0, "node-b": 1.0})
    odd = (await asked.fetch("odd")).readings
    assert math.isnan(odd["node-a"].value)
    assert odd["node-b"].value == math.inf
    many = (await asked.fetch("many")).readings
    assert (many["node-a"].samples, many["node-b"].samples) == (2, 1)

    for metric, reason, says in (
        ("nothing", "empty", "no series"),
        ("wrong", "http_400", "bad_data"),
        ("no_node", "unjoined", "no series belongs to a node"),
    ):
        with pytest.raises(SourceError, match=says) as caught:
            await asked.fetch(metric)
        assert caught.value.reason == reason


async def test_queries_of_the_docs_are_valid(source):
    """By the real parser; agents with only a text file lack most series."""
    page = (ROOT / "docs/sources.md").read_text()
    shown = "\n".join(re.findall(r"```yaml\n(# name in policies.*?)```", page, re.DOTALL))
    strict = re.search(r"`(my_metric and .*?)`", page)[1]
    asked = await source(f"{shown}\nstrict: {strict}\n")
    await settled(asked, "up", {"node-a": 1.0, "node-b": 1.0})
    metrics = [*parse_queries(shown), "strict"]
    assert len(metrics) > 2
    for metric in metrics:
        await settled(asked, metric, "empty")


async def test_reading_of_a_node_ends_with_its_agent(fleet, source):
    fleet.write("node-a", "node_health_metric 1\n")
    fleet.write("node-b", "node_health_metric 0\n")
    asked = await source()
    await settled(asked, "health_metric", {"node-a": 1.0, "node-b": 0.0})
    await fleet.agents["node-b"].kill()
    await settled(asked, "health_metric", {"node-a": 1.0})
    await fleet.agents["node-a"].kill()
    await settled(asked, "health_metric", "empty")


@pytest.mark.features("pages")
async def test_prometheus_readings_decide_the_schedulers_answer(
    api, fleet, run, kubeconfig, tas, rule
):
    """The evaluator without agents, end to end: a file, a scrape, a query, a filter answer, an explanation."""
    fleet.write("node-a", "node_health_metric 1\n")
    fleet.write("node-b", "node_health_metric 0\n")
    a, b = await asyncio.gather(fleet.agent("node-a"), fleet.agent("node-b"))
    await fleet.prometheus(**{"node-a": a, "node-b": b})
    await api.policies()
    for node in ("node-a", "node-b"):
        await api.node(node)
    await api.policy(tas("demo", "default", dontschedule=[rule("health_metric Equals 1")]))
    evaluator = await run(
        *(sys.executable, "-P", "-m", "evaluator", "--unsafe", "--bindAddress=127.0.0.1"),
        *("--port=0", "--opsPort=0", "--syncPeriod=100ms", f"--kubeConfig={kubeconfig(api.url)}"),
        *("--metricsSource=prometheus", f"--prometheusUrl={fleet.url}"),
    )
    await evaluator.said("prometheus has health_metric for 2 of 2 nodes")
    ports = {
        name: (await evaluator.said(rf"server={name} address=\S*:(\d+)"))[1]
        for name in ("extender", "ops")
    }
    assert not any("server=agents" in line for line in evaluator.lines)
    question = {
        "Pod": {
            "metadata": {
                "name": "web",
                "namespace": "default",
                "labels": {"telemetry-policy": "demo"},
            }
        },
        "NodeNames": ["node-a", "node-b"],
    }

    async with aiohttp.ClientSession() as session:

        async def passing(wanted):
            url = f"http://127.0.0.1:{ports['extender']}/scheduler/filter"
            async with asyncio.timeout(PATIENCE):
                while True:
                    async with session.post(url, json=question) as response:
                        found = await response.json()
                    if found.get("NodeNames") == wanted:
                        return
                    await asyncio.sleep(0.02)

        await passing(["node-b"])
        fleet.write("node-a", "node_health_metric 0\n")
        await passing(["node-a", "node-b"])
        url = f"http://127.0.0.1:{ports['ops']}/explain/default/demo"
        async with session.get(url) as response:
            explained = await response.json()
    assert explained["nodes"]["node-a"]["readings"]["health_metric"]["value"] == 0
