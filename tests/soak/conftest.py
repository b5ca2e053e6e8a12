"""Real evaluators under load, with the sandbox's API server as a process: started, killed, observed."""

import asyncio
import contextlib
import itertools
import os
import sys
import time

import aiohttp
import grpc
import pytest

from sandbox import manifests
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import CRDS, NODES, POLICIES
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from sandbox.processes import HeldPort
from sandbox.programs import EvaluatorLaunch, evaluator_command
from tests.eventually import eventually
from tests.preloaded import Processes
from wire import telemetry_pb2, telemetry_pb2_grpc

POLICY = "demo"
SICK, WELL = 1.0, 0.0
KNOWN_AFTER = 10.0
"""Seconds after which a reading has certainly arrived, on any machine."""

_API = """
import asyncio
from plimsoll import logs
from sandbox.apiserver.server import ApiServer
logs.setup("error")
async def run():
    print(await ApiServer().start(), flush=True)
    await asyncio.Event().wait()
asyncio.run(run())
"""


async def reached(answer, what="it"):
    """Wait until a function returns a true value and return it; `what` names it in a failure."""
    try:
        return await eventually(answer)
    except TimeoutError:
        raise AssertionError(f"{what} did not come") from None


class Reading:
    """A node's readings over time: (time, value), the latest last."""

    def __init__(self, value):
        self.history = [(-1e9, value)]
        self._woken = asyncio.Event()

    @property
    def value(self):
        return self.history[-1][1]

    def becomes(self, value):
        self.history.append((time.monotonic(), value))
        self._woken.set()
        self._woken = asyncio.Event()

    def of_late(self, since):
        """Each value since then."""
        later = {value for at, value in self.history if at > since}
        before = [value for at, value in self.history if at <= since]
        return later | set(before[-1:])

    async def changed(self, patience):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._woken.wait()


class Agent:
    """A node's stream to one evaluator, reopened whenever it breaks."""

    _OPTIONS = (
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 300),
    )

    def __init__(self, name, reading, address):
        self._name = name
        self._reading = reading
        self._address = address

    async def run(self):
        async with grpc.aio.insecure_channel(self._address, self._OPTIONS) as channel:
            stub = telemetry_pb2_grpc.TelemetryStub(channel)
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await self._talk(stub.Stream())
                await asyncio.sleep(0.05)

    async def _talk(self, stream):
        await stream.write(telemetry_pb2.Report(node_name=self._name))
        asked = await stream.read()
        reading = asyncio.ensure_future(stream.read())
        try:
            while asked is not grpc.aio.EOF:
                await stream.write(self._report(asked))
                await self._reading.changed(0.3)
                if reading.done():
                    asked = reading.result()
                    reading = asyncio.ensure_future(stream.read())
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _report(self, asked):
        count = len(asked.metrics)
        return telemetry_pb2.Report(
            node_name=self._name,
            generation=asked.generation,
            full=True,
            indices=range(count),
            values=[self._reading.value] * count,
        )


class Evaluator:
    """The real program at addresses that stay the same through restarts; its answers are checked as they arrive."""

    def __init__(self, name, config, processes, flags, before=()):
        self.name = name
        self.wrong = []
        self.answers = 0
        self.may_refuse = False
        """Whether a 503 is correct although it was ready."""
        self._last = time.monotonic()
        self.recoveries = []
        """Seconds from each start to the first answer after it."""
        self.ports = {name: HeldPort() for name in ("extender", "agents", "ops")}
        self._config = config
        self._processes = processes
        self._flags = flags
        self._before = before
        """A prefix of its command."""
        self._started = 0.0
        self._answered = False

    async def start(self):
        launch = EvaluatorLaunch(
            kubeconfig=self._config,
            extender_port=self.ports["extender"].number,
            agent_port=self.ports["agents"].number,
            ops_port=self.ports["ops"].number,
            sync_period=1.0,
            flags=("--staleAfter=60s", *self._flags),
        )
        self._started, self._answered = time.monotonic(), False
        await self._processes.start(self.name, (*self._before, *evaluator_command(launch)))

    @property
    def pid(self):
        return self._processes.pid(self.name)

    @property
    def log(self):
        return self._processes._logs_dir / f"{self.name}.log"

    async def kill(self):
        await self._processes.stop(self.name, kill=True)

    @property
    def silence(self):
        """Seconds since its last answer."""
        return time.monotonic() - self._last

    async def recovered(self):
        """Wait until it answers again."""
        await reached(lambda: self._answered, f"an answer of {self.name}")

    def close(self):
        for port in self.ports.values():
            port.close()

    async def ask_for_ever(self, session, readings):
        """Send requests as a scheduler. A killed process refuses connections; a wrong answer always counts."""
        labels = {"telemetry-policy": POLICY}
        pod = {"metadata": {"name": "p", "namespace": "default", "labels": labels}}
        question = {"Pod": pod, "Nodes": None, "NodeNames": sorted(readings)}
        url = f"http://{self.ports['extender'].address}/scheduler/filter"
        while True:
            begin, life = time.monotonic(), self._started
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                async with session.post(url, json=question) as response:
                    body = await response.json()
                if life == self._started:  # else it is the last answer of an earlier process
                    self._judge(response.status, body, begin, readings)
            await asyncio.sleep(0.01)

    def _judge(self, status, body, begin, readings):
        if status != 200:
            if status != 503 or (self._answered and not self.may_refuse):
                after = "after it was ready" if self._answered else "before"
                self.wrong.append(f"{status} {after}: {body}")
            return
        if not self._answered:
            self._answered = True
            self.recoveries.append(time.monotonic() - self._started)
        self.answers += 1
        self._last = time.monotonic()
        refused = body.get("FailedNodes") or {}
        for node, reading in readings.items():
            if (SICK if node in refused else WELL) not in reading.of_late(begin - KNOWN_AFTER):
                verb = "refused" if node in refused else "let through"
                self.wrong.append(f"{node} was {verb}, and was never like that: {reading.history}")


class Labels:
    """Every change of the policy's label on every node, from the API server: (time, value)."""

    def __init__(self, client):
        self._client = client
        self.history = {}

    async def watch(self, listed):
        listing = await self._client.list(NODES)
        for node in listing.items:
            self._note(node)
        listed.set()
        async for kind, node in self._client.watch(NODES, listing.version):
            if kind != "BOOKMARK":
                self._note(node)

    def _note(self, node):
        value = (node["metadata"].get("labels") or {}).get(POLICY)
        seen = self.history.setdefault(node["metadata"]["name"], [])
        if not seen or seen[-1][1] != value:
            seen.append((time.monotonic(), value))

    def now(self):
        return {name for name, seen in self.history.items() if seen[-1][1] == "violating"}

    def flaps(self, node, reading):
        """Label changes that no change of the reading explains: each needs one of its own before it."""
        unexplained, left = [], list(reading.history)
        for at, value in self.history[node][1:]:
            wanted = SICK if value == "violating" else WELL
            while left and left[0][1] != wanted:
                del left[0]
            if not left or left[0][0] > at:
                unexplained.append((at, value))
            left = left[1:]
        return unexplained


class World:
    """Six nodes: two always violating, two never, two that change; several evaluators with streams from all."""

    def __init__(self, client, evaluators, session):
        self.client = client
        self.evaluators = evaluators
        self.labels = Labels(client)
        self.readings = {
            **{f"sick-{n}": Reading(SICK) for n in (1, 2)},
            **{f"well-{n}": Reading(WELL) for n in (1, 2)},
            **{f"moody-{n}": Reading(WELL) for n in (1, 2)},
        }
        self.eventually = reached
        self._session = session
        self._tasks = []

    @property
    def moody(self):
        return [name for name in self.readings if name.startswith("moody")]

    def sick(self):
        return {name for name, reading in self.readings.items() if reading.value == SICK}

    async def start(self):
        for index, name in enumerate(self.readings):
            await self.client.create(NODES, node_object(name, index, now=time.time()))
        rule = {"metricname": "health", "operator": "Equals", "target": 1}
        strategies = {name: {"rules": [rule]} for name in ("dontschedule", "deschedule")}
        meta = {"name": POLICY, "namespace": "default"}
        body = {"apiVersion": POLICIES.api_version, "kind": "TASPolicy", "metadata": meta}
        await self.client.create(POLICIES, {**body, "spec": {"strategies": strategies}})
        listed = asyncio.Event()
        self._run(self.labels.watch(listed))
        await listed.wait()
        for evaluator in self.evaluators:
            await evaluator.start()
            for name, reading in self.readings.items():
                self._run(Agent(name, reading, evaluator.ports["agents"].address).run())
            for _ in range(2):
                self._run(evaluator.ask_for_ever(self._session, self.readings))
        await self.agrees()

    def _run(self, coroutine):
        self._tasks.append(asyncio.create_task(coroutine))

    async def agrees(self):
        """All evaluators are ready, and the labels match the current readings."""
        for evaluator in self.evaluators:
            await evaluator.recovered()
        await reached(lambda: self.labels.now() == self.sick(), "the right labels")
        for task in self._tasks:
            if task.done():
                task.result()

    async def answered(self, count):
        """All evaluators have answered this many further requests."""
        for evaluator in self.evaluators:
            enough = evaluator.answers + count
            await reached(lambda one=evaluator, enough=enough: one.answers >= enough, "answers")

    async def close(self):
        left = set(self._tasks)
        while left:  # once may not suffice: a gRPC call that ends just then loses the cancellation
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=1)


@pytest.fixture
async def api(tmp_path):
    """(a client, the kubeconfig) of an API server with the CRD."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _API),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
    )
    url = (await process.stdout.readline()).decode().strip()
    config = tmp_path / "kubeconfig"
    config.write_text(kubeconfig(url))
    async with Client(url) as client:
        for crd in manifests.crds():
            await ensure(client, CRDS, crd)

        async def served():
            with contextlib.suppress(ApiError):
                await client.list(POLICIES)
                return True

        await reached(served, "the kind of policies")
        yield client, config
    process.kill()
    await process.wait()


@pytest.fixture
async def start_world(api, tmp_path):
    """Create a world with an evaluator per set of flags, ready and correct."""
    client, config = api
    logs = tmp_path / "logs"
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        processes = Processes(logs)
        stack.push_async_callback(processes.close)

        async def start(*flags, before=()):
            evaluators = [
                Evaluator(f"evaluator-{number}", config, processes, one, prefix)
                for number, (one, prefix) in enumerate(
                    itertools.zip_longest(flags, before, fillvalue=())
                )
            ]
            for evaluator in evaluators:
                stack.callback(evaluator.close)
            world = World(client, evaluators, session)
            stack.push_async_callback(world.close)
            await world.start()
            return world

        yield start
    for log in logs.iterdir():
        assert "Traceback" not in log.read_text(), log
