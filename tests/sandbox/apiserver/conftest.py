"""An API server on loopback, a raw HTTP client, watches, and the real kubectl."""

import asyncio
import json
import os
import shutil
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from sandbox.apiserver.server import ApiServer
from tests.clock import Clock
from tests.patience import PATIENCE

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass
@dataclass(frozen=True)
class Reply:
    """A response."""

    code: int
    body: dict
    headers: dict = field(default_factory=dict)

    @property
    def reason(self):
        return self.body.get("reason")

    @property
    def causes(self):
        return self.body.get("details", {}).get("causes", [])

    @property
    def version(self):
        return self.body["metadata"]["resourceVersion"]


class Watch:
    """An open watch: the next event, or the end of the stream."""

    def __init__(self, response):
        self._response = response

    async def next(self):
        line = await asyncio.wait_for(self._response.content.readline(), PATIENCE)
        return json.loads(line) if line else None

    async def events(self, count):
        return [await self.next() for _ in range(count)]


class Api:
    """Plain HTTP against one server."""

    def __init__(self, url, session):
        self.url = url
        self._session = session

    async def call(self, method, path, body=None, *, raw=None, headers=None, **query):
        data = raw if raw is not None else (None if body is None else json.dumps(body))
        named = {"User-Agent": "tester/1.0", **(headers or {})}
        if data is not None:
            named.setdefault("Content-Type", "application/json")
        async with self._session.request(
            method, self.url + path, data=data, headers=named, params=query
        ) as response:
            text = await response.text()
            return Reply(response.status, json.loads(text), dict(response.headers))

    async def get(self, path, **query):
        return await self.call("GET", path, **query)

    async def post(self, path, body, **query):
        return await self.call("POST", path, body, **query)

    async def put(self, path, body, **query):
        return await self.call("PUT", path, body, **query)

    async def delete(self, path, body=None, **query):
        return await self.call("DELETE", path, body, **query)

    async def patch(self, path, body, kind=MERGE, **query):
        return await self.call("PATCH", path, body, headers={"Content-Type": kind}, **query)

    async def apply(self, path, body, manager="plimsoll", **query):
        return await self.patch(path, body, APPLY, fieldManager=manager, **query)

    @asynccontextmanager
    async def watch(self, path, *, accept="application/json", **query):
        async with self._session.get(
            self.url + path, params={"watch": "true", **query}, headers={"Accept": accept}
        ) as response:
            assert response.status == 200, await response.text()
            yield Watch(response)


@pytest.fixture
def clock():
    return Clock(1_700_000_000.0)


@pytest.fixture
async def server(clock):
    server = ApiServer(clock=clock, history=1000, bookmark_interval=3600.0)
    server.url = await server.start()
    yield server
    await server.close()


@pytest.fixture
async def api(server):
    async with aiohttp.ClientSession() as session:
        yield Api(server.url, session)


def make_node(name="node-a", **metadata):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def make_pod(name="web", *, spec=None, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}], **(spec or {})},
    }


def make_deployment(name="web", **spec):
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
            },
            **spec,
        },
    }


def make_crd(schema, *, plural="widgets", kind="Widget", status=True, **version):
    """A namespaced CRD widgets.example.com/v1 whose spec has this schema."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": schema,
                                "status": {
                                    "type": "object",
                                    "x-kubernetes-preserve-unknown-fields": True,
                                },
                            },
                        }
                    },
                    **({"subresources": {"status": {}}} if status else {}),
                    **version,
                }
            ],
        },
    }


@pytest.fixture
def node():
    return make_node


@pytest.fixture
def pod():
    return make_pod


@pytest.fixture
def deployment():
    return make_deployment


@pytest.fixture
def crd():
    return make_crd


class Kubectl:
    """The real kubectl for a server."""

    def __init__(self, program, config):
        self._program = program
        self._env = {**os.environ, "KUBECONFIG": str(config), "HOME": str(config.parent)}

    async def __call__(self, *args, stdin=None, fails=False):
        """Run it; return its stdout, or its stderr if it must fail (None: stdout in any case)."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            *args,
            env=self._env,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        given = None if stdin is None else json.dumps(stdin).encode()
        out, err = await asyncio.wait_for(process.communicate(given), PATIENCE)
        text, complaint = out.decode(), err.decode()
        if fails is not None:
            assert (process.returncode != 0) is fails, f"kubectl {args}: {text}{complaint}"
        return complaint if fails else text


@pytest.fixture
async def kubectl(server, tmp_path):
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not on PATH")
    config = tmp_path / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "sandbox", "cluster": {"server": server.url}}],
                "users": [{"name": "me", "user": {}}],
                "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "me"}}],
                "current-context": "sandbox",
            }
        )
    )
    return Kubectl(program, config)
