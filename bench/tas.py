"""Cost of requests with whole nodes: Plimsoll beside Telemetry Aware Scheduling, in one run.

Both run on one API server with the same policies, nodes and readings; TAS reads them from the custom metrics API. Both get
the same requests over mutual TLS, alternating: filter, then prioritize, as kube-scheduler sends them. CPU is user and system
time of the whole process per request, memory its peak; `cpu_ratio` and `rss_ratio` are TAS's divided by Plimsoll's.
bench/peers.md says how to build TAS. Prints one JSON line per case.

    python -P bench/tas.py --tas PATH [--nodes 5000] [--requests 8]
"""

import asyncio
import contextlib
import datetime
import http.client
import json
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from bench import cluster, commandline, measure, processes, scene
from bench.authority import Authority
from bench.commandline import Line
from bench.scene import Scene, Server, Sizes
from sandbox.endpoints import kubeconfig

_GROUP = "custom.metrics.k8s.io"
_VERSION = {"groupVersion": f"{_GROUP}/v1beta2", "version": "v1beta2"}
_FORWARDED = ("Accept", "Content-Type", "User-Agent")
_PATIENCE = 120.0
_AIMS = {"filter": "cpu_ratio >= 12, rss_ratio >= 3", "prioritize": "cpu_ratio >= 15"}
_AT_ONCE = 4

_Rounds = Mapping[str, list[Mapping[str, Any]]]
"""Server → the figures of each round."""


def serve(connection: "Connection[Any, Any]", api: str, nodes: int) -> None:
    """Serve the custom metrics API, and the rest of an API server at another address; send the URL."""
    asyncio.run(_serve(connection, api, cluster.names(nodes)))


async def _serve(connection: "Connection[Any, Any]", api: str, names: list[str]) -> None:
    async with proxied(api, lambda metric: cluster.readings(names, metric)) as url:
        connection.send(url)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def proxied(
    api: str,
    readings: Callable[[str], Mapping[str, float]],
    *,
    token: str = "",
    tls: ssl.SSLContext | bool = True,
) -> AsyncIterator[str]:
    """Serve the custom metrics API beside the API server at another address, over plain HTTP; yield the URL.

    `readings`: metric → node → value now. `token` and `tls`: of the API server.
    """
    group = {"name": _GROUP, "versions": [_VERSION], "preferredVersion": _VERSION}

    async def values(request: web.Request) -> web.Response:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        metric = request.match_info["metric"]
        items = [
            {
                "describedObject": {"kind": "Node", "name": node, "apiVersion": "/v1"},
                "metric": {"name": metric, "selector": None},
                "timestamp": now,
                "value": f"{round(value * 1000)}m",
            }
            for node, value in readings(metric).items()
        ]
        kind = {"kind": "MetricValueList", "apiVersion": _VERSION["groupVersion"], "metadata": {}}
        return web.json_response({**kind, "items": items})

    async def groups(_: web.Request) -> web.Response:
        async with session.get(f"{api}/apis", headers={"Accept": "application/json"}) as found:
            listed = await found.json()
        listed["groups"].append(group)
        return web.json_response(listed)

    async def resources(_: web.Request) -> web.Response:
        entry = {"name": "nodes/x", "singularName": "", "namespaced": False, "verbs": ["get"]}
        kind = {"kind": "APIResourceList", "apiVersion": "v1", **_VERSION}
        return web.json_response({**kind, "resources": [{**entry, "kind": "MetricValueList"}]})

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        url = f"{api}{request.path_qs}"
        body = await request.read()
        async with session.request(request.method, url, headers=headers, data=body) as found:
            answer = web.StreamResponse(status=found.status)
            answer.headers["Content-Type"] = found.headers["Content-Type"]
            await answer.prepare(request)
            async for chunk in found.content.iter_any():
                await answer.write(chunk)
        return answer

    app = web.Application(client_max_size=1 << 28)
    app.router.add_get("/apis", groups)
    app.router.add_get(f"/apis/{_GROUP}", lambda _: _json({"kind": "APIGroup", **group}))
    app.router.add_get(f"/apis/{_GROUP}/v1beta2", resources)
    app.router.add_get(f"/apis/{_GROUP}/v1beta2/nodes/*/{{metric}}", values)
    app.router.add_route("*", "/{rest:.*}", forward)
    async with ClientSession(
        connector=TCPConnector(limit=0, ssl=tls),
        timeout=ClientTimeout(total=None),
        headers={"Authorization": f"Bearer {token}"} if token else {},
    ) as session:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield "http://{}:{}".format(*runner.addresses[0])
        finally:
            await runner.cleanup()


async def _json(value: object) -> web.Response:
    return web.json_response(value)


class Client:
    """A connection to an extender that reads chunked responses, as Go's servers send them."""

    def __init__(self, server: Server) -> None:
        context = server.authority.client_context()
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, context=context, timeout=_PATIENCE
        )

    def post(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body."""
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", f"/scheduler/{verb}", body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()


@contextlib.contextmanager
def started(
    program: str, folder: Path, api: str, authority: Authority
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Run TAS until the block ends, with its log in `tas.log`; yield its process and port. It may not listen yet."""
    config = folder / "tas.kubeconfig"
    config.write_text(kubeconfig(api))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [
        program,
        f"--kubeConfig={config}",
        f"--port={port}",
        f"--cert={authority.path('server.crt')}",
        f"--key={authority.path('server.key')}",
        f"--cacert={authority.ca}",
        "--syncPeriod=5s",
    ]
    with processes.program(argv, folder / "tas.log") as process:
        yield process, port


@contextlib.contextmanager
def running(around: Scene, folder: Path, program: str, api: str) -> Iterator[Server]:
    """Run TAS until the block ends; it answers once it has read all metrics."""
    authority = around.site.authority
    with started(program, folder, api, authority) as (process, port):
        server = Server(process.pid, port, authority)
        body = around.ask_about(20, whole=True).question.body
        until = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError, ValueError):
                status, text = Client(server).post("prioritize", body)
                if status == 200 and len(json.loads(text) or ()) == 20:
                    break
            if time.monotonic() > until or process.poll() is not None:
                raise SystemExit(f"TAS gives no scores: {(folder / 'tas.log').read_text()[-800:]}")
            time.sleep(0.5)
        yield server


def answered(verb: str, text: bytes) -> frozenset[str]:
    """Return the nodes that a response rejects or scores."""
    found = json.loads(text)
    if verb == "filter":
        return frozenset(found["FailedNodes"] or ())
    return frozenset(one["Host"] for one in found)


def figures(server: Server, verb: str, body: bytes, *, at_once: int) -> Mapping[str, Any]:
    """Send requests; return CPU and memory of the server and its answers."""
    clients = [Client(server) for _ in range(at_once)]
    measure.forget_peak(server.pid)
    before, answers = measure.cpu_seconds(server.pid), set[frozenset[str]]()
    ok = 0
    with ThreadPoolExecutor(at_once) as pool:
        for future in [pool.submit(client.post, verb, body) for client in clients]:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                status, text = future.result()
                answers.add(answered(verb, text))
                ok += status == 200
    used = measure.cpu_seconds(server.pid) - before
    return {
        "cpu_ms": 1000 * used / at_once,
        "peak_rss_mb": measure.memory_mb(server.pid, "VmHWM"),
        "answered": ok,
        "answers": answers,
    }


def measured(tas: str, nodes: int = 5000, requests: int = 8) -> Iterator[Line]:
    """Yield a line per case. `tas`: the path of its extender; `requests`: of each case."""
    with (
        tempfile.TemporaryDirectory() as name,
        scene.steady(Sizes(nodes, 50, requests, 0), nodes) as around,
        processes.beside(serve, around.site.api, nodes) as connection,
        running(around, Path(name), tas, connection.recv()) as theirs,
    ):
        asked = around.ask_about(nodes, whole=True)
        body = asked.question.body
        for verbs, at_once in ((("filter", "prioritize"), 1), (("filter",), _AT_ONCE)):
            rounds: dict[str, _Rounds] = {verb: {"plimsoll": [], "tas": []} for verb in verbs}
            for _ in range(max(1, requests // at_once)):
                for who, server in (("plimsoll", around.ours), ("tas", theirs)):
                    for verb in verbs:
                        found = figures(server, verb, body, at_once=at_once)
                        rounds[verb][who].append(found)
            for verb in verbs:
                yield _line(verb, at_once, nodes, rounds[verb])


def _line(verb: str, at_once: int, nodes: int, rounds: _Rounds) -> Line:
    found = {
        who: {
            "cpu_ms": round(sum(one["cpu_ms"] for one in each) / len(each), 1),
            "peak_rss_mb": round(max(one["peak_rss_mb"] for one in each), 1),
            "answered": sum(one["answered"] for one in each),
        }
        for who, each in rounds.items()
    }
    answers = {a for each in rounds.values() for one in each for a in one["answers"]}
    ours, theirs = found["plimsoll"], found["tas"]
    requests = at_once * len(rounds["tas"])
    line = {
        "benchmark": "tas",
        "case": f"whole nodes, {at_once} at once" if at_once > 1 else "whole nodes",
        "verb": verb,
        "nodes": nodes,
        "requests": requests,
        "same_answers": len(answers) == 1,
        "cpu_ratio": round(theirs["cpu_ms"] / ours["cpu_ms"], 1),
        "rss_ratio": round(theirs["peak_rss_mb"] / ours["peak_rss_mb"], 1),
        **found,
    }
    if at_once > 1:
        return {**line, "aim": f"plimsoll.answered >= {requests}"}
    # The ratio of a server that did not answer says nothing.
    return {**line, "aim": _AIMS[verb] if theirs["answered"] == requests else ""}


if __name__ == "__main__":
    commandline.run(measured)
