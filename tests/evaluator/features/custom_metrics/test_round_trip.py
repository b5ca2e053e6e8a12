"""The custom metrics API through an aggregation layer, as the source of another evaluator, and of TAS if `tas` is on PATH."""

import asyncio
import base64
import contextlib
import json
import shutil
import sys

import aiohttp
import pytest

from sandbox.apiserver.server import ApiServer
from tests.evaluator.conftest import Api, make_rule, make_tas
from tests.evaluator.core.sources.conftest import run as run
from tests.patience import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.features("pages")]

GROUP = "custom.metrics.k8s.io"
EVALUATOR = (sys.executable, "-P", "-m", "evaluator", "--unsafe", "--bindAddress=127.0.0.1")
AGENT = (sys.executable, "-P", "-m", "agent", "--web.listen-address=127.0.0.1:0")
VALUES = {"node-a": 0.1 + 0.2, "node-b": -1.5e-7, "node-c": 9007199254740991.0}


@pytest.fixture
async def api(authority):
    """A sandbox API server with a front proxy, and the Service of the evaluator."""
    server = ApiServer()
    server.use_front_proxy(authority.file, authority.issue("front-proxy-client"))
    url = await server.start()
    async with aiohttp.ClientSession() as session:
        found = Api(server, url, session)
        await found.policies()
        ports = [{"name": "https", "port": 443}]
        await found.call(
            "POST",
            "/api/v1/namespaces/default/services",
            {"metadata": {"name": "evaluator"}, "spec": {"ports": ports}},
        )
        yield found
    await server.close()


async def register(api, authority, version):
    """Create the APIService of a version and wait until it is available."""
    name = f"{version}.{GROUP}"
    spec = {
        "group": GROUP,
        "version": version,
        "service": {"name": "evaluator", "namespace": "default"},
        "caBundle": base64.b64encode(authority.file.read_bytes()).decode(),
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    await api.call("POST", path, {"metadata": {"name": name}, "spec": spec})
    await api.seen(f"{path}/{name}", lambda found: '"Passed"' in json.dumps(found))


@pytest.fixture
async def serving(api, authority, run, kubeconfig, tmp_path, unused_tcp_port):
    """Start an evaluator that serves the API, and an agent for each node; return the evaluator."""
    cert, key = authority.issue("evaluator", san="DNS:evaluator.default.svc,IP:127.0.0.1")
    api.server.serve_as("default", "evaluator", "https", f"https://127.0.0.1:{unused_tcp_port}")
    evaluator = await run(
        *(*EVALUATOR, f"--cert={cert}", f"--key={key}", "--agentUnsafe", "--observe"),
        *("--port=0", "--opsPort=0", "--agentPort=0", "--syncPeriod=500ms"),
        *(f"--customMetricsPort={unused_tcp_port}", "--serveMetrics=extra_*"),
        f"--kubeConfig={kubeconfig(api.url)}",
    )
    agents = (await evaluator.said(r"msg=listening server=agents address=(\S+)"))[1]
    for node, value in VALUES.items():
        folder = tmp_path / node
        folder.mkdir()
        (folder / "m.prom").write_text(f"node_precise {value!r}\nextra_one 1\nextra_nan NaN\n")
        await api.node(node)
        await run(
            *(*AGENT, f"--node.name={node}", f"--evaluator.address={agents}"),
            *("--collector.disable-defaults", "--collector.textfile"),
            f"--collector.textfile.directory={folder}",
        )
    await api.policy(
        make_tas("served", "default", dontschedule=[make_rule("precise GreaterThan 1")])
    )
    return evaluator


async def until_listed(api, path, names):
    """Wait until a list has items of exactly these objects; return their values."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with aiohttp.ClientSession() as session, session.get(api.url + path) as response:
                found = await response.json()
            items = {one["describedObject"]["name"]: one for one in found.get("items", ())}
            if set(items) == set(names):
                return {name: item["value"] for name, item in items.items()}
            await asyncio.sleep(0.05)


async def test_evaluator_reads_its_own_api_through_the_aggregation_layer(
    api, authority, run, serving, kubeconfig, dial, unused_tcp_port
):
    await register(api, authority, "v1beta2")
    root = f"/apis/{GROUP}/v1beta2"
    await until_listed(api, f"{root}/nodes/*/precise", VALUES)
    assert await until_listed(api, f"{root}/nodes/*/extra_one", VALUES) == dict.fromkeys(
        VALUES, "1"
    )
    await api.call("GET", f"{root}/nodes/*/extra_nan", status=404)
    await api.pod("web-1", "node-b", policy="")
    assert await until_listed(
        api, f"{root}/namespaces/default/pods/*/extra_one?labelSelector=app%3Dweb", ["web-1"]
    ) == {"web-1": "1"}
    names = {one["name"] for one in (await api.get(root))["resources"]}
    assert names >= {"nodes/precise", "nodes/extra_one", "pods/extra_one"}

    reader = await run(
        *(*EVALUATOR, "--metricsSource=custom-metrics", "--observe", "--leaseName=reader"),
        *(
            "--port=0",
            "--opsPort=0",
            "--shutdownDelay=0s",
            "--syncPeriod=500ms",
            f"--kubeConfig={kubeconfig(api.url)}",
        ),
    )
    ops = (await reader.said(r"msg=listening server=ops address=(\S+)"))[1]
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"http://{ops}/explain/default/served") as response:
                text = await response.text()
            if response.status == 200 and _values(json.loads(text)) == VALUES:
                break
            await asyncio.sleep(0.05)
    idle = await dial(unused_tcp_port, authority.client())
    assert (await idle.ask(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")).status == 200
    serving.terminate()
    assert await idle.rest() == b""  # closed, although nothing was requested
    await api.seen(
        f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.{GROUP}",
        lambda found: '"False"' in json.dumps(found["status"]),
    )


@pytest.mark.skipif(not shutil.which("tas"), reason="no tas on PATH: bench/peers.md")
async def test_telemetry_aware_scheduling_takes_it_as_its_source(
    api, authority, run, serving, kubeconfig, unused_tcp_port_factory
):
    await register(api, authority, "v1beta2")
    await until_listed(api, f"/apis/{GROUP}/v1beta2/nodes/*/precise", VALUES)
    cert, key = authority.issue("tas")
    port = unused_tcp_port_factory()
    await run(
        *("tas", f"--kubeConfig={kubeconfig(api.url)}", f"--port={port}", "--syncPeriod=1s"),
        *(f"--cert={cert}", f"--key={key}", f"--cacert={authority.file}"),
    )
    pod = {
        "metadata": {"name": "x", "namespace": "default", "labels": {"telemetry-policy": "served"}}
    }
    nodes = {"items": [{"metadata": {"name": name}} for name in VALUES]}
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.post(
                    f"https://127.0.0.1:{port}/scheduler/filter",
                    json={"Pod": pod, "Nodes": nodes},
                    ssl=authority.client(cert, key),
                ) as response:
                    found = json.loads(await response.text() or "{}")
                if set(found.get("FailedNodes") or ()) == {"node-c"}:
                    return
            await asyncio.sleep(0.2)


def _values(page):
    """Return the readings of a policy's page by node."""
    nodes = page.get("nodes", {})
    return {name: node["readings"]["precise"].get("value") for name, node in nodes.items()}
