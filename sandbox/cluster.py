"""Assembles a cluster on this machine: in-memory API server, simulated nodes, real agents and evaluator, controllers, scheduler."""

import asyncio
import contextlib
import fcntl
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp

from plimsoll import logs
from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import Client, ensure
from sandbox.client.objects import CRDS, SECRETS, in_namespace
from sandbox.controllers.deployments import Deployments
from sandbox.controllers.kubelet import Kubelet
from sandbox.controllers.nodes import Nodes
from sandbox.custom_metrics import CustomMetricsRoute
from sandbox.endpoints import Endpoints, kubeconfig, write_atomically
from sandbox.inject import kernel_log
from sandbox.machine import Machine
from sandbox.processes import HeldPort, ProcessError, Processes
from sandbox.programs import AgentLaunch, EvaluatorLaunch, agent_command, evaluator_command
from sandbox.scheduler.extender import Extender, ExtenderSpec
from sandbox.scheduler.extenders import Extenders
from sandbox.scheduler.scheduler import Scheduler

log = logs.get(__name__)

EVALUATOR = "evaluator"
_POLL = 0.05


@dataclass(frozen=True)
class ClusterSpec:
    """What to start, and in which folder. A port of 0 means any free port."""

    dir: Path
    nodes: tuple[str, ...] = ("node-a", "node-b", "node-c")
    api_port: int = 0
    extender_port: int = 0
    ops_port: int = 0
    sync_period: float = 5.0
    node_cache_capable: bool = True
    scorers: tuple[str, ...] = ()  # each is an extender that is called for every pod
    gangs: bool = False
    node_actions: bool = False  # policies may taint nodes and set conditions
    problems: bool = False  # agents read a kernel log, and problems become conditions and Events
    custom_metrics: bool = False  # the evaluator serves the custom metrics API; needs openssl
    keep: bool = False  # the *.prom files that an earlier cluster left in this folder
    pod_grace: float = 0.0  # seconds that a deleted pod takes to stop
    ready_timeout: float = 60.0
    seed: int = 0  # selects among equal nodes, and makes pod names
    agent: Callable[[AgentLaunch], Sequence[str]] = agent_command
    evaluator: Callable[[EvaluatorLaunch], Sequence[str]] = evaluator_command
    agent_flags: tuple[str, ...] = ()  # additional flags of the programs
    evaluator_flags: tuple[str, ...] = ()
    on_death: Callable[[str, int], None] | None = field(default=None, compare=False)


class ClusterError(Exception):
    """The cluster could not be started; the text is for the user."""


class Cluster:
    """A running cluster, as an async context manager: inside the block everything is ready.

    Its processes die with the thread that entered it, so enter it in the main thread.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.dir = spec.dir.resolve()
        self.endpoints: Endpoints
        self.client: Client
        self.api: ApiServer
        self.binder: Scheduler
        self.processes = Processes(self.dir / "logs", on_death=spec.on_death)
        self._ports: dict[str, HeldPort] = {}
        self._custom_metrics: CustomMetricsRoute | None = None
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await self._build(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    def node_metrics(self, node: str) -> Path:
        """Return the folder whose *.prom files this node's agent reads."""
        return self.dir / node / "node-metrics"

    @property
    def rules(self) -> Path:
        """Return the folder whose rule files all agents load, beside the shipped ones."""
        return self.dir / "rules"

    async def stop_agent(self, node: str, *, kill: bool = False) -> None:
        """Stop one node's agent; its readings go stale."""
        await self.processes.stop(_agent(node), kill=kill)

    async def start_agent(self, node: str) -> None:
        """Start one node's agent, at its old address, and wait until it can be scraped."""
        launch = AgentLaunch(
            node=node,
            textfiles=self.node_metrics(node),
            rules=(f"{manifests.folder()}/rules/*.yaml", f"{self.rules}/*.yaml"),
            listen=self._ports[_agent(node)].address,
            evaluator=self.endpoints.agents,
            flags=self.spec.agent_flags,
            machine=Machine(self.dir / node) if self.spec.problems else None,
        )
        await self.processes.start(_agent(node), self.spec.agent(launch))
        await self._answers(_agent(node), self.endpoints.metrics[node])

    async def stop_evaluator(self, *, kill: bool = False) -> None:
        """Stop the evaluator."""
        await self.processes.stop(EVALUATOR, kill=kill)

    async def start_evaluator(self) -> None:
        """Start the evaluator, at its old addresses, and wait until it is ready."""
        launch = EvaluatorLaunch(
            kubeconfig=self.dir / "kubeconfig",
            extender_port=self._ports["extender"].number,
            agent_port=self._ports["agents"].number,
            ops_port=self._ports["ops"].number,
            sync_period=self.spec.sync_period,
            flags=("--evict", *self._feature_flags(), *self.spec.evaluator_flags),
        )
        await self.processes.start(EVALUATOR, self.spec.evaluator(launch))
        await self._answers(EVALUATOR, f"{self.endpoints.ops}/readyz")

    async def restart_evaluator(self, *, kill: bool = False) -> None:
        """Stop the evaluator (`kill`: by SIGKILL), start it again, and wait until it is ready."""
        await self.stop_evaluator(kill=kill)
        await self.start_evaluator()

    async def _build(self, stack: contextlib.AsyncExitStack) -> None:
        self._prepare_folder(stack)
        self._hold_ports(stack)
        await self._serve_api(stack)
        names = self.spec.nodes
        nodes = Nodes(self.client, names)
        await nodes.register()
        rng = random.Random(self.spec.seed)  # noqa: S311 (names and ties, no secrets)
        called = [
            await stack.enter_async_context(Extender(spec)) for spec in self._extender_specs()
        ]
        self.binder = Scheduler(self.client, Extenders(called), rng=rng)
        stack.push_async_callback(self.processes.close)
        await self._start_programs()
        for run in (
            nodes.run,
            Kubelet(self.client, names, grace=self.spec.pod_grace).run,
            Deployments(self.client, rng=rng).run,
            self.binder.run,
        ):
            await stack.enter_async_context(_in_background(run))
        path = self.dir / "endpoints.json"
        write_atomically(path, self.endpoints.as_json())
        stack.callback(path.unlink, missing_ok=True)

    def _ops_scheme(self) -> str:
        return "https" if "--opsTls" in self.spec.evaluator_flags else "http"

    def _feature_flags(self) -> Iterator[str]:
        if self.spec.scorers:
            yield f"--scorers={','.join(self.spec.scorers)}"
        if self.spec.gangs:
            yield "--gangs"
        if self.spec.node_actions:
            yield from ("--taints", "--conditions")
        if self.spec.problems:
            yield from (
                f"--problemConditions={','.join(manifests.problem_conditions())}",
                "--problemEvents",
            )
        if self._custom_metrics is not None:
            yield from self._custom_metrics.flags

    def _extender_specs(self) -> Iterator[ExtenderSpec]:
        """Return the extenders of deploy/scheduler/scorers.yaml: policies for pods that request the resource, scorers for all pods."""
        base, names_only = self.endpoints.extender, self.spec.node_cache_capable
        yield ExtenderSpec(f"{base}/scheduler", node_cache_capable=names_only)
        for name in self.spec.scorers:
            yield ExtenderSpec(
                f"{base}/scorers/{name}",
                managed_resources=frozenset(),
                node_cache_capable=names_only,
                ignorable=True,
            )

    async def _start_programs(self) -> None:
        try:
            async with asyncio.TaskGroup() as starting:
                starting.create_task(self.start_evaluator())
                for name in self.spec.nodes:
                    starting.create_task(self.start_agent(name))
        except ExceptionGroup as group:
            failed = group.subgroup(ProcessError)
            if failed is None:
                raise
            raise ClusterError("\n".join(str(error) for error in failed.exceptions)) from group

    def _prepare_folder(self, stack: contextlib.AsyncExitStack) -> None:
        for node in self.spec.nodes:
            self.node_metrics(node).mkdir(parents=True, exist_ok=True)
        self.rules.mkdir(exist_ok=True)
        if self.spec.problems:
            self._prepare_machines()
        stack.enter_context(_locked(self.dir))
        for old in self._left_over():
            old.unlink(missing_ok=True)

    def _prepare_machines(self) -> None:
        (self.dir / "problems").mkdir(exist_ok=True)
        (self.dir / "problems" / "kernel.json").write_text(manifests.problems())
        for node in self.spec.nodes:
            Machine(self.dir / node).create()
            kernel_log(self.dir, node).write_bytes(b"")
            (self.dir / node / "problems.state").unlink(missing_ok=True)

    def _left_over(self) -> Iterator[Path]:
        """Return files of an earlier cluster in this folder that would be read as this one's."""
        yield self.dir / "endpoints.json"
        yield from (self.dir / "logs").glob("*.log")
        if not self.spec.keep:
            for node in self.spec.nodes:
                yield from self.node_metrics(node).glob("*.prom")

    def _hold_ports(self, stack: contextlib.AsyncExitStack) -> None:
        port_numbers = {"extender": self.spec.extender_port, "ops": self.spec.ops_port, "agents": 0}
        if self.spec.custom_metrics:
            port_numbers["custom-metrics"] = 0
        port_numbers |= {_agent(node): 0 for node in self.spec.nodes}
        for name, number in port_numbers.items():
            port = self._ports[name] = HeldPort(number)
            stack.callback(port.close)

    async def _serve_api(self, stack: contextlib.AsyncExitStack) -> None:
        self.api = ApiServer()
        try:
            url = await self.api.start(port=self.spec.api_port)
        except OSError as error:
            raise ClusterError(
                f"the API cannot listen on port {self.spec.api_port}: {error.strerror}"
            ) from error
        stack.push_async_callback(self.api.close)
        self.client = await stack.enter_async_context(Client(url))
        self.endpoints = Endpoints(
            api=url,
            extender=f"http://{self._ports['extender'].address}",
            ops=f"{self._ops_scheme()}://{self._ports['ops'].address}",
            agents=self._ports["agents"].address,
            metrics={
                node: f"http://{self._ports[_agent(node)].address}/metrics"
                for node in self.spec.nodes
            },
        )
        self.api.serve_as("plimsoll", "plimsoll-evaluator", "ops", self.endpoints.ops)
        write_atomically(self.dir / "kubeconfig", kubeconfig(url))
        for crd in manifests.crds():
            await ensure(self.client, CRDS, crd)
        await ensure(self.client, SECRETS, in_namespace(manifests.history(), "default"))
        if self.spec.custom_metrics:
            port = self._ports["custom-metrics"].number
            self._custom_metrics = CustomMetricsRoute(self.dir / "certificates", port)
            await self._custom_metrics.open(self.api, self.client)

    async def _answers(self, name: str, url: str) -> None:
        """Wait for a 200. Raises an error with the end of the program's log if it ends or takes too long."""
        last_response = "nothing"
        try:
            async with asyncio.timeout(self.spec.ready_timeout), aiohttp.ClientSession() as session:
                while True:
                    self.processes.check(name)
                    try:
                        async with session.get(url, ssl=False) as response:
                            if response.status == 200:
                                return
                            last_response = (
                                f"{response.status} {(await response.text()).strip()[:300]}"
                            )
                    except aiohttp.ClientError as error:
                        last_response = str(error)
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            text = f"{name} is not ready after {self.spec.ready_timeout:g} s; {url} returned: {last_response}"
            raise ProcessError(text + self.processes.log_end(name)) from None


def _agent(node: str) -> str:
    return f"agent-{node}"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder for one sandbox; the kernel releases the lock when the process ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                f"a sandbox already runs in {folder}; choose another --dir"
            ) from None
        yield


@contextlib.asynccontextmanager
async def _in_background(run: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    task = asyncio.create_task(_for_ever(run))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _for_ever(run: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await run()
        except Exception:
            log.exception("failed, restarting")
            await asyncio.sleep(1)
