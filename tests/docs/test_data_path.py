"""The evaluator's functions of the first walk of docs/walks.md run, from a report to the answer."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import aiohttp
import grpc
import pytest
import yaml

from evaluator.config import Settings
from evaluator.core.assembly import Core
from evaluator.core.kube.client import Kube
from evaluator.core.options import CoreOptions
from evaluator.core.policy.vocabulary import NO_FEATURES
from evaluator.core.signals import Decided, wakes
from evaluator.core.sources.agents.port_process import PortProcess
from evaluator.features.extender.feature import FEATURE
from plimsoll.http.types import Request
from sandbox.apiserver.server import ApiServer
from tests.docs.walks import walks
from tests.patience import PATIENCE
from wire import telemetry_pb2

ROOT = Path(__file__).parents[2]
CRD = ROOT / "deploy/crd/taspolicy.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}
STREAM = "/plimsoll.telemetry.v1.Telemetry/Stream"
POLICY = {
    "apiVersion": "telemetry.intel.com/v1alpha1",
    "kind": "TASPolicy",
    "metadata": {"name": "demo", "namespace": "default"},
    "spec": {
        "strategies": {
            "dontschedule": {
                "rules": [{"metricname": "heat", "operator": "GreaterThan", "target": 5}]
            }
        }
    },
}
POD = {"metadata": {"name": "a", "namespace": "default", "labels": {"telemetry-policy": "demo"}}}


def documented():
    """The evaluator's functions of the first walk."""
    first = next(iter(walks().values()))
    return {step.function for step in first if step.module.startswith("evaluator/")}


@contextlib.contextmanager
def calls():
    """Yield the names of the evaluator's functions that are called meanwhile, in this thread."""
    called = set()

    def note(frame, event, _argument):
        if event == "call" and "/evaluator/" in frame.f_code.co_filename:
            called.add(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


async def filtered(core):
    """The nodes that kube-scheduler is told to leave out."""
    (group,) = FEATURE.wire(core, FEATURE.options()).scheduler_routes
    body = json.dumps({"Pod": POD, "NodeNames": ["node-a"]}).encode()
    handler = group.routes["/scheduler/filter"].handler
    response = await handler(Request("POST", "/scheduler/filter", {}, {}, body))
    return json.loads(b"".join(response.body.parts))["FailedNodes"]


async def report(core, port):
    """Report one reading as an agent does, and return once it is decided on."""
    decided = asyncio.Event()
    core.signals.connect(wakes(decided.set, Decided))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stream = channel.stream_stream(STREAM)()
        first = telemetry_pb2.Report(node_name="node-a")
        await stream.write(first.SerializeToString())
        metrics = ()
        while not metrics:
            asked = telemetry_pb2.Subscription.FromString(await stream.read())
            metrics = asked.metrics
        full = telemetry_pb2.Report(
            node_name="node-a", generation=asked.generation, full=True, indices=[0], values=[9.0]
        )
        await stream.write(full.SerializeToString())
        while not core.loop.is_ready():
            await decided.wait()
            decided.clear()


async def create(url, *objects):
    """Create objects in an API server, each given with its path."""
    async with aiohttp.ClientSession() as session:
        for path, body in objects:
            async with session.post(url + path, json=body) as reply:
                assert reply.status == 201, await reply.text()


@pytest.fixture
async def core(tmp_path):
    server = ApiServer()
    url = await server.start()
    await create(url, (CRDS, yaml.safe_load(CRD.read_text())))
    await create(url, ("/api/v1/nodes", NODE), (POLICIES, POLICY))
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    api = await Kube.connect(str(tmp_path / "config"))
    settings = Settings(unsafe=True, lease_namespace="default", leader_elect=False)
    yield Core(settings.options_of(CoreOptions), api, NO_FEATURES)
    await api.close()
    await server.close()


async def test_functions_from_a_report_to_the_answer_run(core):
    with calls() as called:
        loops = [asyncio.create_task(loop()) for loop in core.loops()]
        agents = core.agents()
        port = await agents.start(PortProcess("127.0.0.1:0"))
        try:
            async with asyncio.timeout(PATIENCE):
                await report(core, port)
                refused = await filtered(core)
        finally:
            await agents.stop()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
    assert set(refused) == {"node-a"}
    assert documented() - called == set()
