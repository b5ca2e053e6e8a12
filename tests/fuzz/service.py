"""A running evaluator with an API server, two nodes, a policy that one of them violates, and agents."""

import asyncio
import contextlib
import json
import re
import sys
import urllib.request
from pathlib import Path

import aiohttp
import grpc
import psutil
import yaml

from sandbox.apiserver.server import ApiServer
from sandbox.processes import HeldPort
from tests.patience import PATIENCE
from tests.preloaded import Processes
from wire import telemetry_pb2, telemetry_pb2_grpc

ROOT = Path(__file__).parents[2]
READINGS = {"node-a": 1.0, "node-b": 0.0}
POLICY = {
    "apiVersion": "telemetry.intel.com/v1alpha1",
    "kind": "TASPolicy",
    # Answers are those of the readings, whatever other requests asked before; pods are placed nevertheless.
    "metadata": {
        "name": "demo",
        "namespace": "default",
        "annotations": {"plimsoll.io/placed-since": "ignore"},
    },
    "spec": {
        "strategies": {
            "dontschedule": {
                "rules": [{"metricname": "health", "operator": "Equals", "target": 1}]
            },
            "scheduleonmetric": {"rules": [{"metricname": "health", "operator": "LessThan"}]},
        }
    },
}
LIMITED = (
    *(sys.executable, "-I", "-c"),
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)\n"
    "os.execv(sys.argv[2], sys.argv[2:])",
)
"""Runs a program with a limit on open files."""


class Service:
    """The evaluator's process, its ports, and its log so far."""

    def __init__(self, folder, authority=None, *, open_files=0):
        """With an authority all ports use TLS, without one none. `open_files` limits the evaluator's descriptors."""
        self.tls = None
        self._authority = authority
        self._launcher = (*LIMITED, str(open_files)) if open_files else ()
        self.pid = 0
        self.ports = {}
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()
        self._programs = Processes(folder)

    @property
    def log(self):
        return self._folder / "evaluator.log"

    @property
    def resident(self):
        """Its resident memory in bytes."""
        return psutil.Process(self.pid).memory_info().rss

    @property
    def descriptors(self):
        """The number of its open files and sockets."""
        return psutil.Process(self.pid).num_fds()

    @property
    def connections(self):
        """The number of connections of the extender's port."""
        url = f"http://127.0.0.1:{self.ports['opsPort']}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            text = response.read().decode()
        found = re.search(
            r'^plimsoll_http_connections\{port="extender"\} (\S+)$', text, re.MULTILINE
        )
        return float(found[1])

    async def start(self, *flags, program=("-m", "evaluator")):
        """`program`: arguments for Python, as those of tests.tuned_evaluator."""
        server = ApiServer()
        url = await server.start()
        self._stack.push_async_callback(server.close)
        await self._furnish(url)
        secured = self._secured() if self._authority else ("--unsafe",)
        held = {name: HeldPort() for name in ("port", "agentPort", "opsPort")}
        for port in held.values():
            self._stack.callback(port.close)
        self.ports = {name: port.number for name, port in held.items()}
        ports = (f"--{name}={number}" for name, number in self.ports.items())
        self._stack.push_async_callback(self._programs.close)
        self.pid = await self._programs.start(
            "evaluator",
            (
                *(*self._launcher, sys.executable, "-P", *program, *ports),
                "--bindAddress=127.0.0.1",
                *(
                    f"--kubeConfig={self._kubeconfig(url)}",
                    "--leaderElect=false",
                    "--shutdownDelay=0s",
                    *secured,
                    *flags,
                ),
            ),
        )
        for node, value in READINGS.items():
            agent = asyncio.create_task(self._report(node, value))
            self._stack.push_async_callback(_ended, agent)
        await self._ready()

    async def close(self):
        await self._stack.aclose()

    async def metrics(self):
        async with aiohttp.ClientSession(self._ops) as session, session.get("/metrics") as found:
            return await found.text()

    @property
    def _ops(self):
        return f"http://127.0.0.1:{self.ports['opsPort']}"

    async def _furnish(self, url):
        crd = yaml.safe_load((ROOT / "deploy/crd/taspolicy.yaml").read_text())
        nodes = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in READINGS
        ]
        async with aiohttp.ClientSession(url) as session:
            for path, body in (
                ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd),
                ("/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies", POLICY),
                *(("/api/v1/nodes", node) for node in nodes),
            ):
                async with session.post(path, json=body) as response:
                    assert response.status == 201, await response.text()

    def _kubeconfig(self, url):
        path = self._folder / "kubeconfig"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config))
        return path

    async def _report(self, node, value):
        """A simulated agent: the same value of each subscribed metric, once a second."""
        address = f"127.0.0.1:{self.ports['agentPort']}"
        async with self._channel(node, address) as channel:
            stub = telemetry_pb2_grpc.TelemetryStub(channel)
            stream = stub.Stream(wait_for_ready=True)
            await stream.write(telemetry_pb2.Report(node_name=node))
            asked = await stream.read()
            reading = asyncio.ensure_future(stream.read())
            while True:
                indices = range(len(asked.metrics))
                report = telemetry_pb2.Report(
                    node_name=node, generation=asked.generation, full=True, indices=indices
                )
                report.values.extend(value for _ in indices)
                await stream.write(report)
                await asyncio.wait({reading}, timeout=1.0)
                if reading.done():
                    asked = reading.result()
                    reading = asyncio.ensure_future(stream.read())

    def _channel(self, node, address):
        if self._authority is None:
            return grpc.aio.insecure_channel(address)
        cert, key = (file.read_bytes() for file in self._authority.issue(node))
        shown = grpc.ssl_channel_credentials(self._authority.file.read_bytes(), key, cert)
        return grpc.aio.secure_channel(address, shown)

    def _secured(self):
        cert, key = self._authority.issue("evaluator")
        shown = self._authority.issue("kube-scheduler", usage="clientAuth")
        self.tls = self._authority.client(*shown)
        return (f"--cert={cert}", f"--key={key}", f"--cacert={self._authority.file}")

    async def _ready(self):
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
            while True:
                self._programs.check("evaluator")
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{self._ops}/readyz") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.05)


async def _ended(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
