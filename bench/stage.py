"""An evaluator process on the sandbox's API server, with nodes and policies of a benchmark."""

import asyncio
import contextlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import aiohttp
import psutil

from bench import measure
from bench import nodes as made
from bench.authority import Authority
from bench.relabel import beside, named, until
from plimsoll import logs
from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import CRDS, NAMESPACES, NODES, POLICIES
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from sandbox.processes import HeldPort, Processes
from sandbox.programs import EvaluatorLaunch, evaluator_command
from tests.tuned_evaluator import retuned

NAMESPACE = "plimsoll-bench"


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of a process: seconds of CPU and of waiting for a CPU, megabytes, descriptors."""

    at: float
    cpu: float
    queued: float
    rss: float
    peak: float
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Return the usage of a process, all threads together."""
        return cls(
            at=time.monotonic(),
            cpu=measure.cpu_seconds(pid),
            queued=measure.queued_seconds(pid),
            rss=measure.memory_mb(pid),
            peak=measure.memory_mb(pid, "VmHWM"),
            descriptors=psutil.Process(pid).num_fds(),
        )

    def cores_since(self, before: "Usage") -> float:
        """Return the used share of one core since an earlier usage."""
        return (self.cpu - before.cpu) / (self.at - before.at)


def serve(connection: "Connection[Any, Any]", nodes: Sequence[str]) -> None:
    """Run an API server with these nodes until killed."""
    logs.setup("warn")

    async def run() -> None:
        server = ApiServer()
        server.load("nodes", (made.node(name, index) for index, name in enumerate(nodes)))
        connection.send(await server.start())
        await asyncio.Event().wait()

    asyncio.run(run())


class Stage:
    """API server and evaluator, without agents, as an async context manager. `nodes`: the names of nodes."""

    def __init__(
        self, folder: Path, nodes: Sequence[str], flags: Sequence[str] = (), **limits: int
    ) -> None:
        """`limits`: fields of `AgentLimits` with other values."""
        self.folder = folder
        self.nodes = list(nodes)
        self.authority = Authority.make(folder / "pki")
        self.ports = {name: HeldPort() for name in ("extender", "agents", "ops")}
        self._flags = tuple(flags)
        self._limits = limits
        self._processes = Processes(folder / "logs")
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        url = self._stack.enter_context(beside(serve, self.nodes)).recv()
        (self.folder / "kubeconfig").write_text(kubeconfig(url))
        self.client = await self._stack.enter_async_context(Client(url))
        self._http = await self._stack.enter_async_context(aiohttp.ClientSession())
        self._stack.push_async_callback(self._processes.close)
        await self._furnish()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def _furnish(self) -> None:
        for crd in manifests.crds():
            await ensure(self.client, CRDS, crd)
        await ensure(self.client, NAMESPACES, named("v1", "Namespace", NAMESPACE))
        await until(self._served)

    async def node(self, name: str, index: int = 0) -> None:
        """Add a node to the cluster."""
        await self.client.create(NODES, node_object(name, index, now=time.time()))

    async def _served(self) -> bool:
        """Create an object, waiting until its CRD is served."""
        with contextlib.suppress(ApiError):
            await self.client.list(POLICIES)
            return True
        return False

    async def remove(self, name: str) -> None:
        """Remove a node from the cluster."""
        await self.client.delete(NODES, name)

    async def policy(self, name: str, metrics: Sequence[str], target: int = 1000) -> None:
        """Create or change a policy: dontschedule, if all of these metrics are greater than the target."""
        rules = [
            {"metricname": metric, "operator": "GreaterThan", "target": target}
            for metric in metrics
        ]
        body = named(POLICIES.api_version, "TASPolicy", name, NAMESPACE)
        body["spec"] = {"strategies": {"dontschedule": {"rules": rules}}}
        await self.client.apply(POLICIES, body, manager="bench")

    async def start(self) -> None:
        """Start the evaluator, and wait until it listens."""
        launch = EvaluatorLaunch(
            kubeconfig=self.folder / "kubeconfig",
            extender_port=self.ports["extender"].number,
            agent_port=self.ports["agents"].number,
            ops_port=self.ports["ops"].number,
            sync_period=10.0,
            flags=(
                *("--no-evict", "--staleAfter=60s", "--v=2"),
                f"--agentCert={self.authority.path('server.crt')}",
                f"--agentKey={self.authority.path('server.key')}",
                f"--agentCacert={self.authority.ca}",
                *self._flags,
            ),
        )
        command = evaluator_command(launch)
        if self._limits:
            command = retuned(command, agent_limits=self._limits)
        await self._processes.start("evaluator", list(command))
        await until(lambda: self.answers("/healthz"), pause=0.02)

    async def kill(self) -> None:
        """Kill the evaluator."""
        await self._processes.stop("evaluator", kill=True)

    def usage(self) -> Usage:
        """Return the evaluator's usage."""
        self._processes.check("evaluator")
        pid = self._processes.pid("evaluator")
        assert pid is not None
        return Usage.of(pid)

    async def get(self, path: str) -> tuple[int, str]:
        """Return a response of the ops port; status 0 if there is none."""
        try:
            url = f"http://{self.ports['ops'].address}{path}"
            async with self._http.get(url) as response:
                return response.status, await response.text()
        except aiohttp.ClientError:
            return 0, ""

    async def answers(self, path: str) -> bool:
        """Return whether the ops port returns 200."""
        return (await self.get(path))[0] == 200

    async def metric(self, name: str) -> float:
        """Return the value of a metric without labels."""
        _, text = await self.get("/metrics")
        found = re.search(rf"^{name} (\S+)", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    async def filter(self, policy: str) -> dict[str, Any]:
        """Return the extender's filter response for a pod of a policy and all nodes."""
        meta = {"name": "p", "namespace": NAMESPACE, "labels": {"telemetry-policy": policy}}
        body = {"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": self.nodes}
        url = f"http://{self.ports['extender'].address}/scheduler/filter"
        async with self._http.post(url, json=body) as response:
            found: dict[str, Any] = await response.json()
            return found
