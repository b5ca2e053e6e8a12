"""Fixtures of the evaluator's tests: policies, server-side apply, and servers."""

import asyncio
import collections
import contextlib
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import aiohttp
import pytest
import yaml
from aiohttp import web

from evaluator.core.kube.client import Kube
from evaluator.core.policy import parse
from evaluator.features.registry import VOCABULARY
from plimsoll import logs
from sandbox.apiserver.server import ApiServer
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def make_tas(name="demo", namespace="ns", *, generation=1, **strategies):
    """A TASPolicy object; each strategy is a list of rules or any other value."""
    wrapped = {
        strategy: {"rules": body} if isinstance(body, list) else body
        for strategy, body in strategies.items()
    }
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "generation": generation,
        },
        "spec": {"strategies": wrapped},
    }


def make_rule(text, *labels):
    """The JSON of a rule from `health Equals 1`, with labels as `name=value`."""
    metric, operator, target = text.split()
    body = {"metricname": metric, "operator": operator, "target": int(target)}
    return {**body, "labels": list(labels)} if labels else body


@pytest.fixture(scope="session")
def tas():
    return make_tas


@pytest.fixture(scope="session")
def rule():
    return make_rule


@pytest.fixture(scope="session")
def parsed():
    """Parse a policy given as for `tas`, by default with the words of all features."""

    def run(*args, vocabulary=VOCABULARY, **kwargs):
        return parse.parse(make_tas(*args, **kwargs), vocabulary=vocabulary)

    return run


class RecordedRequest(NamedTuple):
    """A request as received by a stub server."""

    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class StubServer:
    """A stub HTTP server that answers requests by a script; further requests hang."""

    def __init__(self):
        self.asked = []
        self.url = ""
        self._script = collections.deque()
        self._told = asyncio.Condition()
        self._runner = None
        self._otherwise = hangs

    def then(self, *answers):
        """Append responses to the script."""
        self._script.extend(answers)

    def otherwise(self, answer):
        """Set the response after the end of the script."""
        self._otherwise = answer

    async def until(self, count):
        """Wait for this many requests and return them."""
        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(lambda: len(self.asked) >= count)
        return self.asked

    async def start(self, port=0):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0])

    async def stop(self):
        if self._runner is not None:
            await self._runner.shutdown()
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request):
        seen = (dict(request.query), dict(request.headers), await request.read())
        asked = RecordedRequest(request.method, request.path, *seen)
        async with self._told:
            self.asked.append(asked)
            self._told.notify_all()
        answer = self._script.popleft() if self._script else self._otherwise
        return await answer(request)


async def hangs(_request):
    await asyncio.Event().wait()


def says(status, body, content_type="application/json"):
    """A response with JSON, or with bytes unchanged."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def answer(_request):
        return web.Response(status=status, body=raw, content_type=content_type)

    return answer


def refuses(code, reason="", message="", causes=()):
    """A response with a metav1.Status."""
    details = {"causes": list(causes)}
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return says(code, {**status, "details": details})


def lists(*objects, version="1", more=""):
    """A response with one page of a list."""
    return says(200, {"metadata": {"resourceVersion": version, "continue": more}, "items": objects})


def streams(*parts, end="close"):
    """A watch response that sends these parts (events, or bytes unchanged) and then ends: close, reset or hang."""

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            await response.write(part if isinstance(part, bytes) else line(part))
        if end == "reset":
            request.transport.abort()
        elif end == "hang":
            await asyncio.Event().wait()
        return response

    return answer


def breaks(_request):
    """No response: the connection is reset."""
    _request.transport.abort()
    return hangs(_request)


def line(event):
    kind, obj = event
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


@pytest.fixture(scope="session")
def answer():
    """The responses that a stub server can give."""
    return SimpleNamespace(
        says=says,
        refuses=refuses,
        lists=lists,
        streams=streams,
        breaks=breaks,
        hangs=hangs,
        line=line,
    )


@pytest.fixture
async def stub_server():
    """A stub of the API server, with scripted responses."""
    made = StubServer()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def kubeconfig(tmp_path):
    """Write a kubeconfig for a URL and return its path."""

    def write(url, **user):
        path = tmp_path / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config))
        return str(path)

    return write


@pytest.fixture
async def connect(kubeconfig):
    """Create Kube clients for URLs; they are closed at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(url, **user):
            kube = await Kube.connect(kubeconfig(url, **user))
            stack.push_async_callback(kube.close)
            return kube

        yield make


@pytest.fixture
async def background():
    """Run coroutines in the background: an early failure fails the test, the rest is cancelled."""
    tasks = []

    def start(coroutine):
        task = asyncio.create_task(coroutine)
        tasks.append(task)
        return task

    yield start
    for task in tasks:
        if not task.done():
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


class NoChance(random.Random):
    """A random source that always gives the shortest delay."""

    def random(self):
        return 0.0


@pytest.fixture
def rng():
    return NoChance()


class Api:
    """The sandbox's API server with an administrator's client."""

    def __init__(self, server, url, session):
        self.server = server
        self.url = url
        self._session = session
        self._controllers = {}

    async def call(self, method, path, body=None, content_type="application/json", status=None):
        async with self._session.request(
            method, self.url + path, data=json.dumps(body), headers={"Content-Type": content_type}
        ) as response:
            found = await response.json()
            assert response.status < 300 if status is None else response.status == status, found
            return found

    async def get(self, path):
        return await self.call("GET", path)

    async def delete(self, path):
        return await self.call("DELETE", path)

    async def merge(self, path, body):
        return await self.call("PATCH", path, body, "application/merge-patch+json")

    async def apply(self, path, body, manager, *, force=False):
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return await self.call("PATCH", path + query, body, "application/apply-patch+yaml")

    async def node(self, name, *, ready=True, **spec):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
        made = await self.call("POST", "/api/v1/nodes", body)
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"status": {"conditions": [condition]}}
        await self.merge(f"/api/v1/nodes/{name}/status", status)
        return made

    async def labels(self, node):
        """Return a node's labels without those set at registration."""
        found = (await self.get(f"/api/v1/nodes/{node}"))["metadata"].get("labels", {})
        return {key: value for key, value in found.items() if "kubernetes.io/" not in key}

    async def controller(self, name, namespace="default"):
        """The reference of a ReplicaSet, which is created first."""
        labels = {"of": name}
        containers = [{"name": "c", "image": "none"}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
        if name not in self._controllers:
            made = await self.call("POST", path, {"metadata": {"name": name}, "spec": spec})
            self._controllers[name] = made["metadata"]["uid"]
        kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
        return {**kind, "name": name, "uid": self._controllers[name], "controller": True}

    async def pod(
        self, name, node="", *, namespace="default", policy="demo", owner="", app="web", **spec
    ):
        """Create a pod; `owner`: the name of the ReplicaSet that controls it."""
        owners = [await self.controller(owner, namespace)] if owner else []
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {"app": app} | ({"telemetry-policy": policy} if policy else {}),
                "ownerReferences": owners,
            },
            "spec": {
                "containers": [{"name": "c", "image": "none"}],
                "terminationGracePeriodSeconds": 0,
                **({"nodeName": node} if node else {}),
                **spec,
            },
        }
        return await self.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    async def policies(self):
        """Create the TASPolicy CRD."""
        crd = yaml.safe_load((ROOT / "deploy/crd/taspolicy.yaml").read_text())
        await self.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)

    async def policy(self, body):
        namespace = body["metadata"]["namespace"]
        metadata = {"name": body["metadata"]["name"], "namespace": namespace}
        path = f"/apis/telemetry.intel.com/v1alpha1/namespaces/{namespace}/taspolicies"
        return await self.call("POST", path, {**body, "metadata": metadata})

    async def seen(self, path, predicate):
        """Wait until the object at a path satisfies a predicate and return it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.get(path)
                if predicate(found):
                    return found
                await asyncio.sleep(0.01)


@pytest.fixture
async def api():
    server = ApiServer()
    url = await server.start()
    async with aiohttp.ClientSession() as session:
        yield Api(server, url, session)
    await server.close()


@pytest.fixture
def log_lines(capsys):
    """Set up logging in a format, as the programs do; return a function that reads the new lines."""

    def start(fmt):
        logs.setup("info", fmt)

        def lines():
            return capsys.readouterr().err.splitlines()

        return lines

    return start
