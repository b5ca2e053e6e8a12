"""A real evaluator behind a proxy that injects faults, with agents and a scheduler."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys

import aiohttp
import grpc
import pytest

from tests import preloaded
from tests.evaluator.evaluator_process import EvaluatorProcess
from tests.evaluator.faults import proxy
from tests.eventually import eventually
from wire import telemetry_pb2, telemetry_pb2_grpc

POLICY = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/demo"


@pytest.fixture(scope="session")
def faults():
    """The faults by name."""
    return proxy


class Node:
    """A simulated agent that reports one value for each subscribed metric, five times a second."""

    def __init__(self, name, port):
        self.name = name
        self.value = 0.0
        self._port = port
        self._asked = None
        self._stream = None

    async def run(self):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await self._session(telemetry_pb2_grpc.TelemetryStub(channel).Stream())
                await asyncio.sleep(0.05)

    async def _session(self, stream):
        self._asked = None
        await stream.write(telemetry_pb2.Report(node_name=self.name))
        listening = asyncio.create_task(self._listen(stream))
        try:
            while not listening.done():
                if self._asked is not None:
                    await stream.write(self._report(self._asked))
                await asyncio.wait({listening}, timeout=0.2 if self._asked else 0.01)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, stream):
        async for asked in stream:
            self._asked = asked

    def _report(self, asked):
        count = len(asked.metrics)
        return telemetry_pb2.Report(
            node_name=self.name,
            generation=asked.generation,
            full=True,
            indices=range(count),
            values=[self.value] * count,
        )


class World:
    """Three nodes, a policy, agents, an evaluator behind the proxy, and a scheduler that sends requests continuously."""

    def __init__(self, api, proxy, evaluator, session):
        self.api = api
        self.proxy = proxy
        self.evaluator = evaluator
        self.nodes = {}
        self.answers = []
        """Each answer to the scheduler: its status and the rejected nodes."""
        self.labels = {}
        """Node → every value of the label `demo`, None where it was removed."""
        self._session = session

    async def ask_for_ever(self):
        meta = {
            "name": "web",
            "namespace": "default",
            "labels": {"telemetry-policy": "demo"},
        }
        question = {"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": sorted(self.nodes)}
        url = f"http://127.0.0.1:{self.evaluator.ports['extender']}/scheduler/filter"
        while True:
            async with self._session.post(url, json=question) as response:
                body = await response.json()
                self.answers.append((response.status, frozenset(body.get("FailedNodes") or ())))
            await asyncio.sleep(0.02)

    async def watch_labels(self):
        """Watch the API server directly, past the proxy."""
        url = f"{self.api.url}/api/v1/nodes"
        async with self._session.get(url) as response:
            found = await response.json()
        for node in found["items"]:
            self._note(node)
        query = {"watch": "true", "resourceVersion": found["metadata"]["resourceVersion"]}
        forever = aiohttp.ClientTimeout(total=None)
        async with self._session.get(url, params=query, timeout=forever) as response:
            async for line in response.content:
                event = json.loads(line)
                if event["type"] != "BOOKMARK":
                    self._note(event["object"])

    def _note(self, node):
        value = (node["metadata"].get("labels") or {}).get("demo")
        seen = self.labels.setdefault(node["metadata"]["name"], [])
        if not seen or seen[-1] != value:
            seen.append(value)

    async def get(self, path):
        url = f"http://127.0.0.1:{self.evaluator.ports['ops']}{path}"
        async with self._session.get(url) as response:
            return response.status, await response.text()

    async def until(self, predicate):
        return await eventually(predicate)

    async def ready(self):
        return (await self.get("/readyz"))[0] == 200

    async def stale(self):
        """The /readyz text if everything from the API server is stale."""
        status, text = await self.get("/readyz")
        return text if status == 503 and text.count("from the API server") == 3 else ""

    async def rule(self, target):
        """Edit the policy: another target, which changes the answers."""
        rule = {"metricname": "health", "operator": "Equals", "target": target}
        strategies = {name: {"rules": [rule]} for name in ("dontschedule", "deschedule")}
        await self.api.merge(POLICY, {"spec": {"strategies": strategies}})

    async def answered(self, count):
        """Wait for this many further answers to the scheduler."""
        length = len(self.answers) + count
        await self.until(lambda: len(self.answers) >= length)

    def refused(self):
        """The nodes rejected in the last answer."""
        return set(self.answers[-1][1]) if self.answers else None

    def labelled(self):
        """The nodes that have the label now."""
        return {name for name, seen in self.labels.items() if seen[-1] == "violating"}


@pytest.fixture
def flags():
    """The evaluator's flags with short times; a test module may override them."""
    return (
        "--syncPeriod=200ms",
        "--staleAfter=20s",
        "--clusterStaleAfter=2s",
        "--leaderElect=false",
    )


@pytest.fixture
def token(tmp_path):
    """The evaluator's token file."""
    path = tmp_path / "token"
    path.write_text("first")
    return path


@pytest.fixture
async def world(api, kubeconfig, token, flags, tas, rule, background):
    await api.policies()
    sick = [rule("health Equals 1")]
    await api.policy(tas("demo", "default", dontschedule=sick, deschedule=sick))
    names = ("node-a", "node-b", "node-c")
    for name in names:
        await api.node(name)
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        before_api = proxy.Proxy(api.url, session)
        await before_api.start()
        stack.push_async_callback(before_api.stop)
        process = await preloaded.start(
            (
                *(sys.executable, "-P", "-m", "evaluator", "--unsafe", "--bindAddress=127.0.0.1"),
                *("--port=0", "--agentPort=0", "--opsPort=0", *flags),
            ),
            {
                "PATH": os.environ["PATH"],
                "KUBECONFIG": kubeconfig(before_api.url, tokenFile=str(token)),
            },
            stderr=subprocess.PIPE,
        )
        evaluator = EvaluatorProcess(process)
        stack.push_async_callback(evaluator.kill)
        await evaluator.listening()
        made = World(api, before_api, evaluator, session)
        tasks = [background(made.watch_labels())]
        for name in names:
            made.nodes[name] = Node(name, evaluator.ports["agents"])
            tasks.append(background(made.nodes[name].run()))
        made.nodes["node-a"].value = 1.0
        await made.until(made.ready)
        tasks.append(background(made.ask_for_ever()))
        await made.until(lambda: made.refused() == {"node-a"} == made.labelled())
        made.answers.clear()
        yield made
        for task in tasks:
            if not task.done():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not [line for line in evaluator.lines if "Traceback" in line]
