"""Time to label thousands of nodes that start violating a policy at once, and latency of a policy edit meanwhile.

The real evaluator with an API server in a separate process; every node has a stream. All nodes violate a policy at once,
later none does; meanwhile another policy is edited, and the extender is called until its response changes. Prints one JSON
line, times in seconds. Readings are only reported when they change.

    python -P bench/relabel.py [--nodes 5000] [--kubeQPS 200] [--control-plane | --kubeconfig FILE]

--control-plane: on kube-apiserver and etcd of this machine ($KUBEBUILDER_ASSETS). --kubeconfig: on that cluster (kubectl
must be installed); nodes called relabel-<number> are created and deleted, other nodes are not changed.
"""

import argparse
import asyncio
import contextlib
import functools
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import grpc

from bench.processes import beside
from plimsoll import logs
from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import CRDS, NAMESPACES, NODES, POLICIES
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from sandbox.envtest import ControlPlane, find
from sandbox.processes import HeldPort, Processes
from sandbox.programs import EvaluatorLaunch, evaluator_command
from wire import telemetry_pb2, telemetry_pb2_grpc

NAMESPACE, LABELLING, EDITED = "plimsoll-relabel", "relabel", "relabel-edited"
STREAMS_PER_CHANNEL = 100
AT_ONCE = 16
PAUSE = 1.0  # seconds between two edits


def run_fleet(connection: "Connection[Any, Any]", address: str, nodes: list[str]) -> None:
    """Run the nodes in a separate process; they report the values that the connection sends."""

    async def run() -> None:
        fleet = Fleet(address)
        asyncio.get_running_loop().add_reader(
            connection.fileno(), lambda: fleet.say(connection.recv())
        )
        await fleet.run(nodes)

    asyncio.run(run())


@dataclass
class Fleet:
    """A stream of every node to the evaluator; all report the same value, and 1 for the constant metric."""

    address: str
    value: float = 0.0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, value: float) -> None:
        """Report this value from all nodes."""
        self.value = value
        self.changed.set()
        self.changed = asyncio.Event()

    async def run(self, nodes: list[str]) -> None:
        """Run until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            options = [("grpc.use_local_subchannel_pool", 1)]
            channels = -(-len(nodes) // STREAMS_PER_CHANNEL)
            stubs = [
                telemetry_pb2_grpc.TelemetryStub(  # type: ignore[no-untyped-call]
                    await stack.enter_async_context(
                        grpc.aio.insecure_channel(self.address, options)
                    )
                )
                for _ in range(channels)
            ]
            each = (self._one(stubs[i % channels].Stream(), node) for i, node in enumerate(nodes))
            await asyncio.gather(*each)

    async def _one(self, stream: Any, node: str) -> None:
        await stream.write(telemetry_pb2.Report(node_name=node))
        asked = await stream.read()
        reading = asyncio.ensure_future(stream.read())
        while asked is not grpc.aio.EOF:
            changed = self.changed
            report = telemetry_pb2.Report(node_name=node, generation=asked.generation, full=True)
            report.indices.extend(range(len(asked.metrics)))
            report.values.extend(
                1.0 if metric == "constant" else self.value for metric in asked.metrics
            )
            await stream.write(report)
            waking = asyncio.ensure_future(changed.wait())
            await asyncio.wait({reading, waking}, return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()
            if reading.done():
                asked = reading.result()
                reading = asyncio.ensure_future(stream.read())


class Bench:
    """The evaluator under load, and its clients."""

    def __init__(self, client: Client, http: aiohttp.ClientSession, nodes: list[str]) -> None:
        self.client = client
        self.http = http
        self.nodes = nodes
        self.ports = {name: HeldPort() for name in ("extender", "agents", "ops")}
        self.edits: list[float] = []

    async def prepare(self) -> None:
        """Create policies and nodes."""
        for crd in manifests.crds():
            await ensure(self.client, CRDS, crd)
        await ensure(self.client, NAMESPACES, named("v1", "Namespace", NAMESPACE))
        gate = asyncio.Semaphore(AT_ONCE)

        async def add(index: int, name: str) -> None:
            body = {**node_object(name, 0, now=time.time()), "spec": {"unschedulable": True}}
            async with gate:
                await self.client.create(NODES, body)

        await asyncio.gather(*(add(index, name) for index, name in enumerate(self.nodes)))
        await self._served()
        await self.client.create(POLICIES, policy(LABELLING, "deschedule", "health", 2))
        await self.client.create(POLICIES, policy(EDITED, "dontschedule", "constant", 99))

    async def _served(self) -> None:
        """Create an object, waiting until its CRD is served."""
        while True:
            try:
                await self.client.list(POLICIES)
            except ApiError:
                await asyncio.sleep(0.1)
            else:
                return

    async def clean(self) -> None:
        """Delete all created objects."""
        for name in (LABELLING, EDITED):
            with contextlib.suppress(ApiError):
                await self.client.delete(POLICIES, name, NAMESPACE)
        gate = asyncio.Semaphore(AT_ONCE)

        async def remove(name: str) -> None:
            async with gate:
                with contextlib.suppress(ApiError):
                    await self.client.delete(NODES, name)

        await asyncio.gather(*map(remove, self.nodes))

    async def get(self, path: str) -> tuple[int, str]:
        """Return a response of the ops port."""
        url = f"http://{self.ports['ops'].address}{path}"
        try:
            async with self.http.get(url) as response:
                return response.status, await response.text()
        except aiohttp.ClientError:
            return 0, ""

    async def answers(self, path: str) -> bool:
        """Return whether the ops port returns 200."""
        return (await self.get(path))[0] == 200

    async def written(self) -> int:
        """Return the number of label writes."""
        _, text = await self.get("/metrics")
        found = re.search(r'^plimsoll_label_writes_total\{result="ok"\} (\S+)', text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    async def until_labelled(self, value: str | None, before: int) -> None:
        """Wait until every node has the label with this value in the API server."""

        async def claimed() -> bool:
            return await self.written() - before >= len(self.nodes)

        async def true() -> bool:
            return await self._labels() == dict.fromkeys(self.nodes, value)

        await until(
            claimed
        )  # from the evaluator: listing all nodes each time would load the API server
        await until(true)

    async def _labels(self) -> dict[str, str | None]:
        items = [node["metadata"] for node in (await self.client.list(NODES)).items]
        ours = set(self.nodes)
        return {
            meta["name"]: (meta.get("labels") or {}).get(LABELLING)
            for meta in items
            if meta["name"] in ours
        }

    async def edit(self) -> None:
        """Edit the other policy repeatedly, and record how long each edit takes to change a response."""
        refused = False
        while True:
            refused = not refused
            target = 1 if refused else 99
            begin = time.perf_counter()
            await self.client.patch(
                POLICIES, EDITED, policy(EDITED, "dontschedule", "constant", target), NAMESPACE
            )
            await until(functools.partial(self._refuses, refused), pause=0.005)
            self.edits.append(time.perf_counter() - begin)
            await asyncio.sleep(PAUSE)

    async def _refuses(self, wanted: bool) -> bool:
        """Return whether the extender rejects a node for a pod of the edited policy, as expected."""
        labels = {"telemetry-policy": EDITED}
        meta = {"name": "p", "namespace": NAMESPACE, "labels": labels}
        body = {"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": self.nodes[:1]}
        url = f"http://{self.ports['extender'].address}/scheduler/filter"
        async with self.http.post(url, json=body) as response:
            answer = await response.json()
        return response.status == 200 and bool(answer["FailedNodes"]) is wanted


async def until(true: Callable[[], Awaitable[bool]], *, pause: float = 0.1) -> None:
    """Poll until a condition is true."""
    while not await true():  # noqa: ASYNC110 (the other process sends no event)
        await asyncio.sleep(pause)


def named(api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    """Return an object with apiVersion, kind and metadata."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": meta}


def policy(name: str, strategy: str, metric: str, target: int) -> dict[str, Any]:
    """Return a policy with one rule."""
    rule = {"metricname": metric, "operator": "Equals", "target": target}
    body = named(POLICIES.api_version, "TASPolicy", name, NAMESPACE)
    return {**body, "spec": {"strategies": {strategy: {"rules": [rule]}}}}


async def measure(where: "Plane", count: int, qps: float) -> dict[str, Any]:
    """Make all nodes violate, then none."""
    nodes = [f"relabel-{number:05}" for number in range(count)]
    async with (
        where.client as client,
        aiohttp.ClientSession() as http,
        contextlib.AsyncExitStack() as stack,
    ):
        bench = Bench(client, http, nodes)
        processes = Processes(where.folder / "logs")
        # Stopped in reverse order: nodes that lose their evaluator would log many lines.
        if where.outlives_us:
            stack.push_async_callback(bench.clean)
        stack.push_async_callback(processes.close)
        await bench.prepare()
        await processes.start("evaluator", command(bench, where.kubeconfig, qps))
        await until(lambda: bench.answers("/healthz"))
        fleet = stack.enter_context(beside(run_fleet, bench.ports["agents"].address, nodes))
        await until(lambda: bench.answers("/readyz"))
        editing = asyncio.create_task(bench.edit())
        seconds = []
        for value, label in ((2.0, "violating"), (0.0, None)):
            before, begin = await bench.written(), time.perf_counter()
            fleet.send(value)
            await bench.until_labelled(label, before)
            seconds.append(time.perf_counter() - begin)
        if editing.done():
            await editing  # the cause of the failure
        editing.cancel()
    return {
        "benchmark": "relabel",
        "api": where.name,
        "nodes": count,
        "kube_qps": qps,
        "seconds_on": round(seconds[0], 1),
        "seconds_off": round(seconds[1], 1),
        "edits": len(bench.edits),
        "edit_p50_s": round(statistics.median(bench.edits), 3),
        "edit_max_s": round(max(bench.edits), 3),
        "aim": "seconds_on <= 60, edit_max_s <= 1 loops",
    }


def command(bench: Bench, config: Path, qps: float) -> list[str]:
    """Return the evaluator's command line, with a long --staleAfter."""
    launch = EvaluatorLaunch(
        kubeconfig=config,
        extender_port=bench.ports["extender"].number,
        agent_port=bench.ports["agents"].number,
        ops_port=bench.ports["ops"].number,
        sync_period=600.0,
        flags=(
            "--staleAfter=20m",
            "--no-evict",
            f"--kubeQPS={qps:g}",
            "--log.level=warn",
            "--v=0",
        ),
    )
    return list(evaluator_command(launch))


@dataclass(frozen=True)
class Plane:
    """An API server for the benchmark."""

    name: str
    client: Client
    kubeconfig: Path
    folder: Path
    outlives_us: bool = False


@contextlib.contextmanager
def sandbox_plane(folder: Path) -> Iterator[Plane]:
    """Run the sandbox's API server in a separate process."""
    with beside(serve) as connection:
        url = connection.recv()
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(url))
        yield Plane("sandbox", Client(url), config, folder)


def serve(connection: "Connection[Any, Any]") -> None:
    """Run the sandbox's API server until killed."""
    logs.setup("warn")

    async def run() -> None:
        connection.send(await ApiServer().start())
        await asyncio.Event().wait()

    asyncio.run(run())


@contextlib.contextmanager
def real_plane(folder: Path) -> Iterator[Plane]:
    """Run kube-apiserver and etcd of this machine."""
    with ControlPlane(find(os.environ), folder / "control-plane") as running:
        client = Client(running.url, token=running.token, ca=running.ca)
        yield Plane("kube-apiserver", client, running.kubeconfig, folder)


@contextlib.contextmanager
def given_plane(folder: Path, config: Path) -> Iterator[Plane]:
    """Use a cluster through `kubectl proxy`, with any authentication that kubectl supports."""
    words = ["kubectl", f"--kubeconfig={config}", "proxy", "--port=0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            found = re.search(r"127\.0\.0\.1:\d+", proxy.stdout.readline())
            if found is None:
                raise SystemExit("kubectl proxy did not start")
            url = f"http://{found[0]}"
            yield Plane(str(config), Client(url), config, folder, outlives_us=True)
        finally:
            proxy.terminate()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=5000, help="how many (default 5000)")
    parser.add_argument("--kubeQPS", type=float, default=200, help="of the evaluator (default 200)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--control-plane", action="store_true", help="on a real API server here")
    where.add_argument("--kubeconfig", type=Path, help="on that cluster")
    arguments = parser.parse_args()
    logs.setup("error")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if arguments.control_plane:
            plane = stack.enter_context(real_plane(Path(folder)))
        elif arguments.kubeconfig:
            plane = stack.enter_context(given_plane(Path(folder), arguments.kubeconfig))
        else:
            plane = stack.enter_context(sandbox_plane(Path(folder)))
        print(json.dumps(asyncio.run(measure(plane, arguments.nodes, arguments.kubeQPS))))


if __name__ == "__main__":
    main()
