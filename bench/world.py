"""The surroundings of an evaluator in a separate process: an API server with a cluster, and Prometheus."""

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import msgspec
from aiohttp import web

from bench import cluster, nodes
from plimsoll import logs
from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import CRDS, NAMESPACES, POLICIES


@dataclass(frozen=True, slots=True)
class Spec:
    """The size of the cluster."""

    nodes: int
    policies: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Change the limit of the dontschedule strategy of `policy-<number>`."""

    number: int
    limit: int


def run(connection: "Connection[Any, Any]", spec: Spec) -> None:
    """Serve, send both URLs, then apply edits until killed."""
    logs.setup("warn")
    asyncio.run(_run(connection, spec))


async def _run(connection: "Connection[Any, Any]", spec: Spec) -> None:
    api = ApiServer()
    names = cluster.names(spec.nodes)
    api.load("nodes", (nodes.node(name, index) for index, name in enumerate(names)))
    readings = {metric: cluster.readings(names, metric) for metric in cluster.METRICS}
    url = await api.start()
    prometheus = await _serve_prometheus(readings)
    async with Client(url) as client:
        await furnish(client, cluster.NAMESPACE)
        for body in cluster.policies(spec.policies):
            await client.create(POLICIES, body)
        connection.send((url, prometheus))
        edits: asyncio.Queue[Edit] = asyncio.Queue()
        asyncio.get_running_loop().add_reader(
            connection.fileno(), lambda: edits.put_nowait(connection.recv())
        )
        while True:
            edit = await edits.get()
            body = cluster.policy(edit.number, limit=edit.limit)
            await client.patch(POLICIES, body["metadata"]["name"], body, cluster.NAMESPACE)


async def furnish(client: Client, namespace: str) -> None:
    """Create the CRDs and a namespace, and wait until policies are served."""
    for crd in manifests.crds():
        await ensure(client, CRDS, crd)
    meta = {"name": namespace}
    await ensure(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    while True:  # a kind is served shortly after its CRD was created
        try:
            await client.list(POLICIES)
        except ApiError:
            await asyncio.sleep(0.1)
        else:
            return


async def _serve_prometheus(readings: Mapping[str, Mapping[str, float]]) -> str:
    """A minimal Prometheus: instant queries for one metric by name."""

    async def query(request: web.Request) -> web.Response:
        found = re.search(r'__name__="(\w+)"', request.query["query"])
        metric = found[1] if found else ""
        now = time.time()
        series = [
            {"metric": {"__name__": metric, "node": node}, "value": (now, str(value))}
            for node, value in readings.get(metric, {}).items()
        ]
        data = {"resultType": "vector", "result": series}
        body = msgspec.json.encode({"status": "success", "data": data})
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/api/v1/query", query)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return "http://{}:{}".format(*runner.addresses[0])
