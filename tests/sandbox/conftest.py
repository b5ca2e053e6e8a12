"""Small Kubernetes objects and an API server for the sandbox's tests."""

import asyncio
import copy

import pytest

from sandbox.client.client import Client
from tests.eventually import eventually


def make_pod(name="web", **spec):
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        **spec.pop("metadata", {}),
    }
    containers = [{"name": "c", "image": "none", "resources": spec.pop("resources", {})}]
    status = spec.pop("status", {"phase": "Pending"})
    return {"metadata": meta, "spec": {"containers": containers, **spec}, "status": status}


def make_node(name="node-a", *, labels=None, spec=None, allocatable=None):
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": spec or {},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"} | (allocatable or {})
        },
    }


@pytest.fixture
def pod():
    return make_pod


@pytest.fixture
def node():
    return make_node


@pytest.fixture
def changed():
    """A copy of an object with a value at a path of keys."""

    def change(obj, *path, to):
        new = copy.deepcopy(obj)
        place = new
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = to
        return new

    return change


@pytest.fixture
async def client():
    from sandbox.apiserver.server import ApiServer

    server = ApiServer()
    url = await server.start()
    async with Client(url) as connected:
        yield connected
    await server.close()


@pytest.fixture
async def spawn():
    """Start a program with piped output; it ends with the test."""
    started = []

    async def start(*argv):
        program = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        started.append(program)
        return program

    yield start
    for program in started:
        if program.returncode is None:
            program.kill()
        await program.communicate()


@pytest.fixture(name="eventually")
def eventually_fixture():
    return eventually
