"""A fault-injecting proxy between a real evaluator and its API server."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import aiohttp
import grpc
import pytest
from aiohttp import web

from tests import preloaded
from tests.eventually import eventually
from tests.patience import PATIENCE
from wire import telemetry_pb2, telemetry_pb2_grpc

POLICY = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/demo"


async def passes(proxy, request):
    """No fault."""
    return await proxy.forward(request)


def slow(seconds):
    """Each request is delayed."""

    async def act(proxy, request):
        await asyncio.sleep(seconds)
        return await proxy.forward(request)

    return act


async def resets(_proxy, request):
    """The connection breaks before the request is forwarded."""
    request.transport.abort()
    return web.Response()


async def loses_answers(proxy, request):
    """The request is forwarded, and the connection breaks before its response."""
    if is_watch(request):
        return await resets(proxy, request)
    async with proxy.ask(request) as answer:
        await answer.read()
    return await resets(proxy, request)


def says(status, reason="", *, headers=None):
    """An error response as of an API server."""

    async def act(_proxy, _request):
        body = {"kind": "Status", "status": "Failure", "code": status, "message": reason}
        return web.json_response(body, status=status, headers=headers)

    return act


async def hangs(_proxy, _request):
    """The request is accepted and never answered."""
    await asyncio.Event().wait()


def ends_watches(after):
    """A watch ends normally after this many lines."""

    async def act(proxy, request):
        return await proxy.forward(request, lines=after if is_watch(request) else None)

    return act


async def tears_watches(proxy, request):
    """A watch breaks within its first event."""
    return await proxy.forward(request, torn=is_watch(request))


async def expires_watches(proxy, request):
    """A watch gets an Expired error event."""
    if not is_watch(request):
        return await proxy.forward(request)
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return web.Response(text=json.dumps({"type": "ERROR", "object": status}) + "\n")


def only(wanted, act):
    """A fault for some requests only."""

    async def choose(proxy, request):
        return await (act if wanted(request) else passes)(proxy, request)

    return choose


def in_turn(*acts):
    """Alternating faults, request by request."""
    turns = itertools.cycle(acts)

    async def choose(proxy, request):
        return await next(turns)(proxy, request)

    return choose


def is_watch(request):
    return request.query.get("watch") == "true"


def is_write(request):
    return request.method != "GET"


@pytest.fixture(scope="session")
def faults():
    """The faults by name."""
    return SimpleNamespace(
        passes=passes,
        slow=slow,
        resets=resets,
        loses_answers=loses_answers,
        says=says,
        hangs=hangs,
        ends_watches=ends_watches,
        tears_watches=tears_watches,
        expires_watches=expires_watches,
        only=only,
        in_turn=in_turn,
        is_watch=is_watch,
        is_write=is_write,
    )


class Proxy:
    """A reverse proxy; `weather` is the current fault."""

    def __init__(self, upstream, session):
        self.faults = passes
        self.asked = []
        self.token = ""
        """The required token in the Authorization header; empty: unchecked."""
        self._upstream = upstream
        self._session = session
        self._runner = None
        self._port = 0
        self._open = {}
        self._held = set()
        self._freeze = asyncio.Event()
        self._freeze.set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    async def start(self):
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self):
        """Start an outage: close the port and all connections."""
        for request in self._open.values():
            if request.transport is not None:
                request.transport.abort()
        await self._runner.cleanup()

    def freeze(self):
        """Freeze: open watches stay open without events, and no request is answered."""
        self._freeze.clear()

    def thaw(self):
        """End the freeze; requests that were not cancelled continue."""
        self._freeze.set()

    def hold_watches(self):
        """Stop the events of open watches without ending them; new watches work."""
        held = [id(request) for request in self._open.values() if is_watch(request)]
        self._held |= set(held)
        return held

    def spoil(self, act):
        """Change the fault and break open watches."""
        self.faults = act
        for request in self._open.values():
            if is_watch(request) and request.transport is not None:
                request.transport.abort()

    async def _handle(self, request):
        self.asked.append((request.method, request.path, is_watch(request)))
        self._open[id(request)] = request
        try:
            if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
                return await says(401, "Unauthorized")(self, request)
            await self._freeze.wait()
            return await self.faults(self, request)
        finally:
            del self._open[id(request)]

    def ask(self, request):
        headers = {
            name: request.headers[name]
            for name in ("Content-Type", "Accept")
            if name in request.headers
        }
        url = self._upstream + request.path_qs

        @contextlib.asynccontextmanager
        async def send():
            body = await request.read()
            async with self._session.request(
                request.method, url, data=body, headers=headers
            ) as answer:
                yield answer

        return send()

    async def forward(self, request, *, lines=None, torn=False):
        async with self.ask(request) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            if not is_watch(request):
                body = await answer.read()
                await self._freeze.wait()
                return web.Response(
                    status=answer.status, body=body, content_type=answer.content_type
                )
            await response.prepare(request)
            await self._pour(answer, request, response, lines, torn)
            return response

    async def _pour(self, answer, request, response, lines, torn):
        count = 0
        while lines is None or count < lines:
            line = await answer.content.readline()
            await self._freeze.wait()
            if id(request) in self._held:
                await asyncio.Event().wait()
            if not line:
                return
            if torn:
                await response.write(line[: len(line) // 2])
                request.transport.abort()
                return
            await response.write(line)
            count += 1


class Evaluator:
    """The evaluator process with its ports and log lines."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        self.ports = {}
        self._told = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self):
        async for raw in self.process.stderr:
            line = raw.decode()
            async with self._told:
                self.lines.append(line)
                if found := re.search(r"msg=listening server=(\w+) address=\S*:(\d+)", line):
                    self.ports[found[1]] = int(found[2])
                self._told.notify_all()

    async def listening(self):
        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(lambda: len(self.ports) == 3)

    async def end(self):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading


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
        proxy = Proxy(api.url, session)
        await proxy.start()
        stack.push_async_callback(proxy.stop)
        process = await preloaded.start(
            (
                *(sys.executable, "-P", "-m", "evaluator", "--unsafe", "--bindAddress=127.0.0.1"),
                *("--port=0", "--agentPort=0", "--opsPort=0", *flags),
            ),
            {
                "PATH": os.environ["PATH"],
                "KUBECONFIG": kubeconfig(proxy.url, tokenFile=str(token)),
            },
            stderr=subprocess.PIPE,
        )
        evaluator = Evaluator(process)
        stack.push_async_callback(evaluator.end)
        await evaluator.listening()
        made = World(api, proxy, evaluator, session)
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
