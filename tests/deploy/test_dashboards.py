"""Every query of the dashboards returns data from a real Prometheus that scrapes a sandbox's evaluator and agents."""

import asyncio
import contextlib
import itertools
import json
import re
import shutil
import time
from pathlib import Path

import aiohttp
import pytest

from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import DEPLOYMENTS, NAMESPACES, PODS, POLICIES, ObjectKind
from sandbox.cluster import ClusterSpec
from sandbox.processes import HeldPort
from sandbox.programs import AgentLaunch, agent_command, evaluator_command
from tests import prometheus
from tests.eventually import eventually
from tests.preloaded import Cluster

pytestmark = [
    pytest.mark.features("evictions", "scorers", "gangs", "node_actions", "custom_metrics"),
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is not on PATH"),
]

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARDS = [
    json.loads((DEPLOY / "monitoring" / name).read_text())
    for name in ("plimsoll.json", "nodes.json")
]
KINDS = {"Namespace": NAMESPACES, "TASPolicy": POLICIES, "Deployment": DEPLOYMENTS}
SCRAPES = {"scrape_interval": "1s", "scrape_timeout": "1s", "honor_labels": True}
DEMO = "health-metric-demo"
RESOURCE = "telemetry/scheduling"
RULES = """
groups:
  - name: ambiguous
    rules:
      - record: node_ambiguous
        expr: node_cpu_seconds_total / on () node_cpu_seconds_total
"""
USAGE = """
node_cpu_used_mean_5m_cores 1
node_cpu_used_stddev_5m_cores 0.4
node_memory_used_mean_5m_bytes 4e9
node_memory_used_stddev_5m_bytes 1e8
"""
STOP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "plimsoll-stop", "namespace": "default"},
    "data": {"default.other": "a policy that comes later"},
}
REPEATERS = {
    "kind": "TASPolicy",
    "metadata": {
        "name": "repeaters",
        "namespace": DEMO,
        "annotations": {"plimsoll.io/memory": "30d"},
    },
    "spec": {
        "strategies": {
            "deschedule": {
                "rules": [
                    {"metricname": "gpu_hot", "operator": "GreaterThan", "target": 0},
                    {"metricname": "node_disk_errors", "operator": "GreaterThan", "target": 0},
                    {
                        "metricname": "node_disk_errors:peer_deviation",
                        "operator": "GreaterThan",
                        "target": 3,
                    },
                ]
            }
        }
    },
}
HOST = re.compile(r"node_pressure_\w+" if not Path("/proc/pressure").exists() else r"(?!)")
"""Series that the kernel of this machine does not have."""


def queries():
    """The panels' queries as Grafana sends them: each variable with its value for All."""
    for dashboard in DASHBOARDS:
        every = {one["name"]: one.get("allValue") for one in dashboard["templating"]["list"]}
        shown = (*dashboard["panels"], {"targets": dashboard["annotations"]["list"]})
        for panel in shown:
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", "5m")
                for name, value in every.items():
                    query = query.replace(f"${name}", value or "")
                if not HOST.search(query):
                    yield query


def links(cluster):
    """The links of dashboards and panels to pages, as Grafana opens them."""
    values = {
        "pages": cluster.endpoints.ops,
        "__from:date:iso": "2026-01-02T03:04:05.678Z",
        "__to:date:iso": "2126-01-02T03:04:05.678Z",
        "__field.labels.namespace": DEMO,
        "__field.labels.policy": "demo-policy",
        "__field.labels.node": cluster.spec.nodes[0],
    }
    for dashboard in DASHBOARDS:
        of_panels = (p["fieldConfig"]["defaults"].get("links", ()) for p in dashboard["panels"])
        for link in itertools.chain(dashboard["links"], *of_panels):
            yield re.sub(r"\$\{([^}]+)\}", lambda match: values[match[1]], link["url"])


@pytest.fixture
async def server(tmp_path):
    """Prometheus before its targets exist: `scrape.json` names them later."""
    job = {"job_name": "plimsoll", **SCRAPES}
    job["file_sd_configs"] = [{"files": ["scrape.json"], "refresh_interval": "1s"}]
    (tmp_path / "prometheus").mkdir()
    with contextlib.ExitStack() as stack:
        context = prometheus.running(tmp_path / "prometheus", {"scrape_configs": [job]})
        running = await asyncio.to_thread(stack.enter_context, context)
        yield running


@pytest.fixture
def scraped(tmp_path):
    """Make a program's command line, and add the program to the targets of Prometheus."""
    targets = []

    def add(address, **labels):
        targets.append({"targets": [address], "labels": labels})
        (tmp_path / "prometheus" / "scrape.json").write_text(json.dumps(targets))

    def agent(launch):
        add(launch.listen, node=launch.node, instance=launch.node)
        return agent_command(launch)

    def evaluator(launch):
        add(f"127.0.0.1:{launch.ops_port}", pod="evaluator-0")
        return evaluator_command(launch)

    return {"agent": agent, "evaluator": evaluator}


@pytest.fixture
def custom_metrics():
    """The port of the custom metrics API."""
    with HeldPort() as port:
        yield port


@pytest.fixture
async def cluster(server, scraped, custom_metrics, authority, tmp_path):
    cert, key = authority.issue("evaluator")
    spec = ClusterSpec(
        dir=tmp_path / "cluster",
        scorers=("safe",),
        gangs=True,
        node_actions=True,
        keep=True,
        sync_period=0.5,
        evaluator_flags=(
            "--metricsSource=agents,prometheus",
            f"--prometheusUrl=http://{server.address}",
            f"--customMetricsPort={custom_metrics.number}",
            *(f"--cert={cert}", f"--key={key}"),
        ),
        **scraped,
    )
    cluster = Cluster(spec)
    for node in spec.nodes:
        cluster.node_metrics(node).mkdir(parents=True)
        (cluster.node_metrics(node) / "usage.prom").write_text(USAGE)
    first = cluster.node_metrics(spec.nodes[0])
    (first / "gpu.prom").write_text("gpu_hot 0\n")
    (first / "unfinished.prom").write_text("node_unfinished\n")
    cluster.rules.mkdir()
    (cluster.rules / "ambiguous.yaml").write_text(RULES)
    (cluster.rules / "broken.yaml").write_text("groups: 1\n")
    async with cluster:
        stranger = AgentLaunch("stranger", tmp_path, "127.0.0.1:0", cluster.endpoints.agents)
        await cluster.processes.start("agent-stranger", agent_command(stranger))
        yield cluster


async def apply(cluster, *paths):
    for path in paths:
        for obj in manifests.load(manifests.folder() / path):
            await ensure(cluster.client, KINDS[obj["kind"]], obj)


def pod(name, namespace, policy):
    container = {"name": "c", "image": "none:1", "resources": {"limits": {RESOURCE: "1"}}}
    meta = {"name": name, "namespace": namespace, "labels": {"telemetry-policy": policy}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container]},
    }


async def test_every_query_returns_data(cluster, server, custom_metrics):
    """Each panel has data once what it shows has happened; the test makes everything happen."""

    def write(node, text):
        (cluster.node_metrics(node) / "text.prom").write_text(text)

    async def placed():
        pods = (await cluster.client.list(PODS, namespace=DEMO)).items
        of_app = [pod for pod in pods if pod["metadata"]["labels"].get("app") == "demo"]
        return next((pod["spec"]["nodeName"] for pod in of_app if "nodeName" in pod["spec"]), None)

    missing = [*queries()]

    async def answered():
        now = round(time.time() * 1000)
        for query in missing[:]:
            if await asyncio.to_thread(server.ask, query, now):
                missing.remove(query)
        return not missing

    for node in cluster.spec.nodes:
        write(node, "node_health_metric 0\nnode_disk_errors 0\n")
    await apply(cluster, f"{DEMO}/00-namespace.yaml", f"{DEMO}/10-policy.yaml")
    await apply(cluster, f"{DEMO}/20-deployment.yaml")
    await apply(
        cluster, *(f"gang-demo/{name}.yaml" for name in ("00-namespace", "10-train", "20-later"))
    )
    scale = {"spec": {"replicas": 3}}
    await cluster.client.patch(DEPLOYMENTS, "train", scale, "gang-demo")
    actions = "node-actions-demo"
    await apply(cluster, f"{actions}/00-namespace.yaml", f"{actions}/10-policy.yaml")
    await ensure(cluster.client, POLICIES, {"apiVersion": POLICIES.api_version, **REPEATERS})
    await ensure(cluster.client, PODS, pod("misspelt", DEMO, "no-such-policy"))
    await ensure(cluster.client, ObjectKind("configmaps"), STOP)
    url = f"https://{custom_metrics.address}/readyz"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False):
        violating = await eventually(placed, every=0.1)
    write(violating, "node_health_metric 2\nnode_disk_errors 1\n")
    try:
        await eventually(answered, every=0.1)
    except TimeoutError:
        pytest.fail(f"no data: {missing}")
    async with aiohttp.ClientSession() as session:
        for url in links(cluster):
            async with session.get(url) as response:
                assert response.status == 200, url
