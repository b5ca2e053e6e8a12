"""The same scenarios on two API servers: the sandbox's and, if available or named, a real one.

The fixture `world` has an administrator's client, a namespace, nodes and policies with unique names (a cluster may have
others), the real evaluator process, and simulated agents.
"""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from docs import compatibility
from sandbox import manifests
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import CRDS, POLICIES
from sandbox.envtest import ControlPlane, NoControlPlaneError, find
from tests.cluster.evaluator import Evaluator
from tests.cluster.plane import Plane, sandbox_plane
from tests.cluster.replicas import Replicas
from tests.cluster.world import World
from tests.eventually import eventually


def pytest_addoption(parser):
    parser.addoption(
        "--record-compatibility",
        action="store_true",
        help="write docs/compatibility/<minor version>.json: the results of tests/cluster on the real API server",
    )


def pytest_terminal_summary(terminalreporter, config):
    """Record what ran on the installed API server; scenarios of the sandbox alone are no results."""
    if config.getoption("--record-compatibility", default=False):
        version = compatibility.version_of(find(os.environ).apiserver)
        outcomes = [
            (name, report.nodeid, report.longrepr[2] if name == "skipped" else "")
            for name in ("passed", "failed", "error", "skipped")
            for report in terminalreporter.stats.get(name, [])
            if "tests/cluster/" in report.nodeid and "[sandbox" not in report.nodeid
        ]
        compatibility.record(version, outcomes)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory):
    """The installed etcd and kube-apiserver, started once for all scenarios."""
    try:
        binaries = find(os.environ)
    except NoControlPlaneError as error:
        pytest.skip(f"{error}; and USE_EXISTING_CLUSTER is not true")
    with ControlPlane(binaries, tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def existing_cluster():
    """The URL of a kubectl proxy to the current cluster, which handles any authentication."""
    command = ["kubectl", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            found = re.search(r"127\.0\.0\.1:\d+", proxy.stdout.readline())
            assert found, "kubectl proxy did not start"
            yield f"http://{found[0]}"
        finally:
            proxy.terminate()


@pytest.fixture(params=["sandbox", "real"])
async def plane(request, tmp_path):
    """An API server with our CRD."""
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "sandbox":
            made = await sandbox_plane(tmp_path, stack)
        elif os.environ.get("USE_EXISTING_CLUSTER", "").lower() == "true":
            url = request.getfixturevalue("existing_cluster")
            client = await stack.enter_async_context(Client(url))
            made = Plane(_kubeconfig(), client, None)
        else:
            real = request.getfixturevalue("control_plane")
            client = await stack.enter_async_context(Client(real.url, token=real.token, ca=real.ca))
            made = Plane(real.kubeconfig, client, real)
        for crd in manifests.crds():
            await ensure(made.client, CRDS, crd)
        await eventually(lambda: _serves_policies(made.client))
        yield made


def _kubeconfig():
    return Path(os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser()


async def _serves_policies(client):
    try:
        return await client.list(POLICIES)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


@pytest.fixture
async def world(plane, tmp_path):
    evaluator = Evaluator(plane.kubeconfig, tmp_path / "logs")
    made = World(plane, evaluator)
    await made.add_namespace(made.namespace)
    yield made
    await made.fleet.close()
    await evaluator.close()
    await made.clear()


@pytest.fixture
async def replicas(world, tmp_path):
    made = Replicas(world, tmp_path / "replicas")
    yield made
    await made.close()
