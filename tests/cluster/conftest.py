"""The same scenarios on two API servers: the sandbox's and, if available or named, a real one.

The fixture `world` has an administrator's client, a namespace, nodes and policies with unique names (a cluster may have
others), the real evaluator process, and simulated agents.
"""

import asyncio
import contextlib
import copy
import json
import os
import random
import re
import secrets
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import grpc
import pytest

from plimsoll.text import NearNames
from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import STRATEGIC, ApiError, Client, ensure
from sandbox.client.objects import CRDS, NAMESPACES, NODES, PODS, POLICIES, ObjectKind
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from sandbox.envtest import ControlPlane, NoControlPlaneError, find
from sandbox.processes import HeldPort
from sandbox.programs import EvaluatorLaunch, evaluator_command
from sandbox.scheduler.extender import Extender, ExtenderSpec
from sandbox.scheduler.extenders import Extenders
from sandbox.scheduler.scheduler import Scheduler
from tests.patience import PATIENCE
from tests.preloaded import Processes
from tests.tuned_evaluator import retuned
from wire import codec, telemetry_pb2, telemetry_pb2_grpc

BUDGETS = ObjectKind("poddisruptionbudgets", "policy/v1")
RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
"""An agent waits at most 15 s between two attempts; gRPC's own backoff grows to two minutes without a server."""
OURS = "plimsoll.io/scenario"
"""Label of a scenario's objects, so that it deletes only those."""


@dataclass
class Plane:
    """An API server: its URL, an administrator's client, and its programs."""

    kubeconfig: Path
    client: Client
    server: ApiServer | ControlPlane | None

    @contextlib.asynccontextmanager
    async def scheduler(self, extender, folder):
        """A scheduler with one extender, or without any if None: the sandbox's, or the real kube-scheduler."""
        if isinstance(self.server, ApiServer):
            async with contextlib.AsyncExitStack() as stack:
                specs = [ExtenderSpec(extender)] if extender else []
                asked = [await stack.enter_async_context(Extender(spec)) for spec in specs]
                binder = asyncio.create_task(
                    Scheduler(self.client, Extenders(asked), rng=random.Random(1)).run()
                )
                yield
                binder.cancel()
                await asyncio.wait([binder])
        elif isinstance(self.server, ControlPlane):
            config = folder / "scheduler.yaml"
            config.write_text(json.dumps(scheduler_config(self.kubeconfig, extender)))
            try:
                with self.server.scheduler(config) as is_up:
                    await eventually(is_up)
                    yield
            except NoControlPlaneError as error:
                pytest.skip(str(error))
        else:
            pytest.skip("a cluster's own scheduler is not ours to configure")


def scheduler_config(kubeconfig, extender):
    """A KubeSchedulerConfiguration with one extender over plain HTTP, or without any if None."""
    plain = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
    }
    if extender is None:
        return plain
    return plain | {
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "enableHTTPS": False,
                "nodeCacheCapable": True,
                "managedResources": [{"name": "telemetry/scheduling", "ignoredByScheduler": True}],
            }
        ],
    }


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


async def sandbox_plane(folder, stack):
    server = ApiServer()
    url = await server.start()
    stack.push_async_callback(server.close)
    config = folder / "kubeconfig"
    config.write_text(kubeconfig(url))
    return Plane(config, await stack.enter_async_context(Client(url)), server)


async def _serves_policies(client):
    try:
        return await client.list(POLICIES)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def eventually(answer):
    """Wait until a function returns a true value and return it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = answer()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)


class Fleet:
    """Simulated agents: one stream per node with values set by the test."""

    def __init__(self, address):
        self._address = address
        self._values = {}
        self._tasks = {}
        self._wake = {}

    def say(self, node, **values):
        """Set this node's readings; an omitted metric is absent."""
        self._values[node] = values
        if node not in self._tasks:
            self._wake[node] = asyncio.Event()
            self._tasks[node] = asyncio.create_task(self._run(node))
        self._wake[node].set()

    async def silence(self, node):
        """Stop this node's reports."""
        task = self._tasks.pop(node)
        task.cancel()
        await asyncio.wait([task])

    async def close(self):
        for node in tuple(self._tasks):
            await self.silence(node)

    async def _run(self, node):
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                async with grpc.aio.insecure_channel(self._address, RECONNECT) as channel:
                    stub = telemetry_pb2_grpc.TelemetryStub(channel)
                    await self._stream(node, stub.Stream(wait_for_ready=True))
            await asyncio.sleep(0.1)

    async def _stream(self, node, stream):
        """Answer each subscription in full, and report each change."""
        await stream.write(telemetry_pb2.Report(node_name=node))
        asked = await stream.read()
        reading = asyncio.ensure_future(stream.read())
        try:
            while asked is not grpc.aio.EOF:
                self._wake[node].clear()
                await stream.write(self._report(node, asked))
                waking = asyncio.ensure_future(self._wake[node].wait())
                # Often enough that no reading turns stale.
                await asyncio.wait({reading, waking}, timeout=1, return_when="FIRST_COMPLETED")
                waking.cancel()
                if reading.done():
                    asked = reading.result()
                    reading = asyncio.ensure_future(stream.read())
        finally:
            reading.cancel()

    def _report(self, node, asked):
        values = self._values[node]
        known = [index for index, name in enumerate(asked.metrics) if name in values]
        report = telemetry_pb2.Report(
            node_name=node,
            generation=asked.generation,
            full=True,
            indices=known,
            values=[float(values[asked.metrics[index]]) for index in known],
        )
        names = NearNames(values)
        absent = [name for name in asked.metrics if name not in values]
        codec.add_similar(report, asked.metrics, {name: names.find(name) for name in absent})
        return report


class Evaluator:
    """The real program, at addresses that stay the same through restarts."""

    def __init__(self, config, logs):
        self._config = config
        self._processes = Processes(logs)
        self._ports = {name: HeldPort() for name in ("extender", "agents", "ops")}
        self._session = aiohttp.ClientSession()
        self._address = f"http://{self._ports['extender'].address}"
        self.extender = f"{self._address}/scheduler"
        self.agents = self._ports["agents"].address
        self._scheme = "http"

    @property
    def operations(self):
        """The URL of the ops port."""
        return f"{self._scheme}://{self._ports['ops'].address}"

    def scorer(self, name):
        """The urlPrefix of a scorer's extender."""
        return f"{self._address}/scorers/{name}"

    async def start(self, *flags, **changes):
        """`changes` are constants to replace, as of `tuned`."""
        launch = EvaluatorLaunch(
            kubeconfig=self._config,
            extender_port=self._ports["extender"].number,
            agent_port=self._ports["agents"].number,
            ops_port=self._ports["ops"].number,
            sync_period=1.0,
            flags=("--staleAfter=5s", "--evictPeriod=1s", *flags),
        )
        self._scheme = "https" if "--opsTls" in flags else "http"
        await self._processes.start("evaluator", retuned(evaluator_command(launch), **changes))

    async def stop(self, *, kill=False):
        await self._processes.stop("evaluator", kill=kill)

    @contextlib.contextmanager
    def paused(self):
        """Stop the process with SIGSTOP until the block ends."""
        pid = self._processes.pid("evaluator")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def close(self):
        await self._processes.close()
        await self._session.close()
        for port in self._ports.values():
            port.close()

    def log(self):
        """Its log so far, also for failure messages."""
        return self._processes.log_end("evaluator")

    async def get(self, path, token=""):
        """(status, text) of a path on the ops port."""
        self._processes.check("evaluator")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.operations}{path}"
        try:
            async with self._session.get(url, headers=headers, ssl=False) as response:
                return response.status, await response.text()
        except aiohttp.ClientError:
            return 0, ""

    async def ready(self):
        async def is_ready():
            return (await self.get("/readyz"))[0] == 200

        try:
            await eventually(is_ready)
        except TimeoutError:
            raise AssertionError(f"not ready{self.log()}") from None

    async def metric(self, line):
        """The value of a metric, written as `name{label="value"}`; None if there is no such line."""
        _, text = await self.get("/metrics")
        found = [one for one in text.splitlines() if one.startswith(f"{line} ")]
        return float(found[0].split()[-1]) if found else None

    async def filter(self, pod, nodes):
        """The extender's response for a pod and nodes."""
        body = {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
        async with self._session.post(f"{self.extender}/filter", json=body) as response:
            return json.loads(await response.text())


class World:
    """One scenario's part of a cluster. Names get a suffix unique to the scenario; `name` adds it."""

    def __init__(self, plane, evaluator):
        self.plane = plane
        self.client = plane.client
        self.evaluator = evaluator
        self.fleet = Fleet(evaluator.agents)
        self.suffix = secrets.token_hex(3)
        self.namespace = f"plimsoll-{self.suffix}"
        self.eventually = eventually
        self.marks = OURS

    def name(self, name):
        return f"{name}-{self.suffix}"

    def _meta(self, name, namespace=None):
        meta = {"name": name, "labels": {OURS: self.suffix}}
        return meta | ({"namespace": namespace} if namespace else {})

    async def add_namespace(self, name):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": self._meta(name)}
        await self.client.create(NAMESPACES, body)

    async def add_node(self, name, *, ready=True, **labels):
        """Create a ready node; return its full name."""
        full = self.name(name)
        body = node_object(full, 0, now=1e9)
        body["metadata"]["labels"] |= {OURS: self.suffix, **labels}
        # The pod CIDRs of two nodes must differ.
        body["spec"] = {}
        status = copy.deepcopy(body.pop("status"))
        for condition in status["conditions"]:
            if condition["type"] == "Ready":
                condition["status"] = "True" if ready else "False"
        await self.client.create(NODES, body)
        # A controller, if any, removes the taint that a new node has.
        await self.client.patch(NODES, full, {"spec": {"taints": None}})
        await self.client.patch(
            NODES, full, {"status": status}, subresource="status", content_type=STRATEGIC
        )
        return full

    async def add_policy(self, name, namespace=None, *, spec=None, annotations=None, **strategies):
        """Create a policy with a unique name; strategies are lists of rules such as "health Equals 1"."""
        full = self.name(name)
        body = {
            "apiVersion": POLICIES.api_version,
            "kind": "TASPolicy",
            "metadata": {
                **self._meta(full, namespace or self.namespace),
                **({"annotations": annotations} if annotations else {}),
            },
            "spec": spec or spec_of(**strategies),
        }
        await self.client.create(POLICIES, body)
        return full

    async def edit_policy(self, name, **strategies):
        """Replace the strategies of a policy."""
        found = await self.client.get(POLICIES, name, self.namespace)
        await self.client.update(POLICIES, {**found, "spec": spec_of(**strategies)})

    async def add_pod(self, name, policy="", node="", **spec):
        """Create a pod with a policy, bound to a node if one is named."""
        meta = self._meta(name, self.namespace)
        meta["labels"] |= {"app": "web"} | ({"telemetry-policy": policy} if policy else {})
        container = {
            "name": "c",
            "image": "none",
            "resources": {"limits": {"telemetry/scheduling": "1"}} if policy else {},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {
                "containers": [container],
                "terminationGracePeriodSeconds": 0,
                **({"nodeName": node} if node else {}),
                **spec,
            },
        }
        return await self.client.create(PODS, body)

    async def labels(self, node):
        """The labels of a node that a policy of the scenario may have set."""
        found = (await self.client.get(NODES, node))["metadata"].get("labels") or {}
        return {key: value for key, value in found.items() if self.suffix in key}

    async def labelled(self, node, **wanted):
        """Wait until those are exactly these."""

        async def agree():
            return await self.labels(node) == wanted

        try:
            await eventually(agree)
        except TimeoutError:
            found = await self.labels(node)
            raise AssertionError(
                f"{node} has {found}, not {wanted}{self.evaluator.log()}"
            ) from None

    async def status(self, policy, predicate):
        """A policy's status once it exists and satisfies a predicate."""

        async def told():
            found = (await self.client.get(POLICIES, policy, self.namespace)).get("status")
            return found if found and predicate(found) else None

        return await eventually(told)

    async def start(self, *flags, **changes):
        """Start the evaluator and wait until it is ready."""
        await self.evaluator.start(*flags, **changes)
        await self.evaluator.ready()

    async def clear(self):
        """Delete this scenario's objects. Namespaces stay if no controller empties them."""
        mine = f"{OURS}={self.suffix}"
        for kind in (POLICIES, BUDGETS, PODS, NODES):
            for obj in (await self.client.list(kind, labels=mine)).items:
                meta = obj["metadata"]
                with contextlib.suppress(ApiError):
                    await self.client.delete(kind, meta["name"], meta.get("namespace", ""), grace=0)
        for obj in (await self.client.list(NAMESPACES, labels=mine)).items:
            with contextlib.suppress(ApiError):
                await self.client.delete(NAMESPACES, obj["metadata"]["name"])


def spec_of(**strategies):
    """A policy spec from short rules: `dontschedule=["health Equals 1"]`, `labeling=["health Equals 1: tier=low"]`."""
    return {
        "strategies": {name: {"rules": [*map(rule, body)]} for name, body in strategies.items()}
    }


def rule(text):
    """A rule from `health Equals 1`, or `health Equals 1: tier=low` with labels."""
    words, _, labels = text.partition(": ")
    metric, operator, target = words.split()
    body = {"metricname": metric, "operator": operator, "target": int(target)}
    return body | ({"labels": labels.split(",")} if labels else {})


@pytest.fixture
async def world(plane, tmp_path):
    evaluator = Evaluator(plane.kubeconfig, tmp_path / "logs")
    made = World(plane, evaluator)
    await made.add_namespace(made.namespace)
    yield made
    await made.fleet.close()
    await evaluator.close()
    await made.clear()
