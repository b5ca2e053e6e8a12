"""An evaluator process on an API server, with policies of a benchmark: the sandbox's, or kube-apiserver."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import aiohttp

from bench import nodes as made
from bench.authority import Authority
from bench.cluster import policy_object, rule
from bench.measure import Usage
from bench.processes import beside
from bench.site import sample
from bench.world import furnish
from plimsoll import logs
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import Client
from sandbox.client.objects import NODES, POLICIES
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from sandbox.envtest import ControlPlane, find
from sandbox.processes import HeldPort, Processes
from sandbox.programs import EvaluatorLaunch, evaluator_command
from tests.tuned_evaluator import retuned

NAMESPACE = "plimsoll-bench"


def serve(connection: "Connection[Any, Any]", nodes: Sequence[str]) -> None:
    """Run an API server with these nodes until killed."""
    logs.setup("warn")

    async def run() -> None:
        server = ApiServer()
        server.load("nodes", (made.node(name, index) for index, name in enumerate(nodes)))
        connection.send(await server.start())
        await asyncio.Event().wait()

    asyncio.run(run())


@dataclass(frozen=True)
class Plane:
    """An API server for a benchmark, and a folder for its files."""

    name: str
    client: Client
    kubeconfig: Path
    folder: Path


@contextlib.contextmanager
def sandbox_plane(folder: Path, nodes: Sequence[str] = ()) -> Iterator[Plane]:
    """Run the sandbox's API server with these nodes in a separate process."""
    with beside(serve, nodes) as connection:
        url = connection.recv()
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(url))
        yield Plane("sandbox", Client(url), config, folder)


@contextlib.contextmanager
def real_plane(folder: Path) -> Iterator[Plane]:
    """Run kube-apiserver and etcd of this machine."""
    with ControlPlane(find(os.environ), folder / "control-plane") as running:
        client = Client(running.url, token=running.token, ca=running.ca)
        yield Plane("kube-apiserver", client, running.kubeconfig, folder)


async def until(true: Callable[[], Awaitable[bool]], *, pause: float = 0.1) -> None:
    """Poll until a condition is true."""
    while not await true():  # noqa: ASYNC110 (the other process sends no event)
        await asyncio.sleep(pause)


class Stage:
    """API server and evaluator, without agents, as an async context manager."""

    def __init__(
        self, plane: Plane, flags: Sequence[str], *, sync_period: float = 10.0, **limits: int
    ) -> None:
        """`limits`: fields of `AgentLimits` with other values."""
        self.client = plane.client
        self.authority = Authority.make(plane.folder / "pki")
        self._kubeconfig = plane.kubeconfig
        self._sync_period = sync_period
        self.ports = {name: HeldPort() for name in ("extender", "agents", "ops")}
        self._flags = tuple(flags)
        self._limits = limits
        self._processes = Processes(plane.folder / "logs")
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.client)
        self._http = await self._stack.enter_async_context(aiohttp.ClientSession())
        self._stack.push_async_callback(self._processes.close)
        await furnish(self.client, NAMESPACE)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def node(self, name: str, index: int = 0) -> None:
        """Add a node to the cluster."""
        await self.client.create(NODES, node_object(name, index, now=time.time()))

    async def remove(self, name: str) -> None:
        """Remove a node from the cluster."""
        await self.client.delete(NODES, name)

    async def policy(
        self,
        name: str,
        metrics: Sequence[str],
        target: int = 1000,
        strategy: str = "dontschedule",
    ) -> None:
        """Create or change a policy that nodes violate if any of these metrics is greater than the target."""
        strategies = {strategy: {"rules": [rule(metric, target) for metric in metrics]}}
        body = policy_object(name, strategies, namespace=NAMESPACE)
        await self.client.apply(POLICIES, body, manager="bench")

    async def start(self) -> None:
        """Start the evaluator, and wait until it listens."""
        launch = EvaluatorLaunch(
            kubeconfig=self._kubeconfig,
            extender_port=self.ports["extender"].number,
            agent_port=self.ports["agents"].number,
            ops_port=self.ports["ops"].number,
            sync_period=self._sync_period,
            flags=(
                "--no-evict",
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

    async def metric(self, series: str) -> float:
        """Return the value of a series of its /metrics; 0 if absent."""
        return sample((await self.get("/metrics"))[1], series)

    async def rejects(self, policy: str, node: str) -> bool | None:
        """Return whether the extender rejects a node for a pod of a policy; None while it is not ready."""
        meta = {"name": "p", "namespace": NAMESPACE, "labels": {"telemetry-policy": policy}}
        body = {"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": [node]}
        url = f"http://{self.ports['extender'].address}/scheduler/filter"
        async with self._http.post(url, json=body) as response:
            result = await response.json()
        return bool(result["FailedNodes"]) if response.status == 200 else None
