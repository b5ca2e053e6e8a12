"""The custom metrics API through a real aggregation layer: an adapter that answers, fails, hangs or is missing."""

import asyncio
import datetime
import json
import shutil
import ssl
import subprocess

import pytest
from aiohttp import web

from sandbox.client.client import ApiError
from sandbox.client.objects import ObjectKind
from sandbox.envtest import ControlPlane
from tests.patience import PATIENCE

SERVICES = ObjectKind("services")
API_SERVICES = ObjectKind("apiservices", "apiregistration.k8s.io/v1", namespaced=False)
GROUP = "custom.metrics.k8s.io"
SOURCE = ("--metricsSource=custom-metrics", "--sourceTimeout=500ms")


class Adapter:
    """An extension API server for the aggregation layer: TLS, discovery, and one metric list per path."""

    def __init__(self, certificate):
        self.metrics = {}
        self._runner = None
        self._secured = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._secured.load_cert_chain(*certificate)

    async def start(self):
        """Its port."""
        app = web.Application()
        app.router.add_get(f"/apis/{GROUP}/v1beta1", self._discovery)
        app.router.add_get(f"/apis/{GROUP}/v1beta1/nodes/*/{{metric}}", self._metric)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._secured).start()
        return self._runner.addresses[0][1]

    async def stop(self):
        await self._runner.cleanup()

    async def _discovery(self, _request):
        kind = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/v1beta1"}
        return web.json_response(kind | {"resources": []})

    async def _metric(self, request):
        says = self.metrics.get(request.match_info["metric"], 404)
        if says == "hang":
            await asyncio.Event().wait()
        if isinstance(says, int):
            return web.json_response({"kind": "Status", "message": "no"}, status=says)
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        items = [
            {"describedObject": {"kind": "Node", "name": n}, "timestamp": stamp, "value": value}
            for n, value in says.items()
        ]
        return web.json_response({"kind": "MetricValueList", "items": items})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not on PATH")
    folder = tmp_path_factory.mktemp("adapter")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    made = (
        "openssl",
        "req",
        "-x509",
        *key,
        "-keyout",
        "key",
        "-out",
        "crt",
        "-subj",
        "/CN=adapter",
    )
    subprocess.run(made, cwd=folder, check=True, capture_output=True, timeout=PATIENCE)
    return str(folder / "crt"), str(folder / "key")


@pytest.fixture
async def adapter(world, certificate):
    """Register it with a real API server, whose aggregation layer resolves a name outside the cluster."""
    if not isinstance(world.plane.server, ControlPlane):
        pytest.skip(
            "needs a real aggregation layer of our own; that of the sandbox has its own tests"
        )
    made = Adapter(certificate)
    port = await made.start()
    meta = {"name": "adapter", "namespace": world.namespace}
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    await world.client.create(
        SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    )
    await world.client.create(
        API_SERVICES,
        {
            "apiVersion": API_SERVICES.api_version,
            "kind": "APIService",
            "metadata": {"name": f"v1beta1.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": "v1beta1",
                "service": meta | {"port": port},
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    )
    yield made
    await world.client.delete(API_SERVICES, f"v1beta1.{GROUP}")
    await made.stop()


async def served(world):
    """Wait until the API server forwards requests to the adapter."""

    async def answers():
        try:
            return await world.client.request("GET", f"/apis/{GROUP}/v1beta1")
        except ApiError:
            return None

    await world.eventually(answers)


async def test_missing_adapter_is_in_the_status(world):
    await world.add_node("a")
    policy = await world.add_policy("p", deschedule=["health_metric Equals 1"])
    await world.start(*SOURCE)
    await world.status(policy, lambda status: "is an adapter installed?" in json.dumps(status))


async def test_adapter_readings_decide_and_missing_metrics_delay_nothing(world, adapter):
    a, b = await world.add_node("a"), await world.add_node("b")
    adapter.metrics = {"health_metric": {a: "1", b: "0"}, "slow": "hang"}
    await served(world)
    policy = await world.add_policy("p", deschedule=["health_metric Equals 1"])
    none = await world.add_policy("none", dontschedule=["nobody_has_it Equals 1"])
    slow = await world.add_policy("slow", dontschedule=["slow Equals 1"])
    await world.start(*SOURCE)
    await world.labelled(a, **{policy: "violating"})
    adapter.metrics["health_metric"] = {a: "0", b: "1000m"}
    await world.labelled(b, **{policy: "violating"})
    await world.labelled(a)
    for name, says in ((none, "404"), (slow, "no response within 500ms")):
        await world.status(name, lambda status, says=says: says in json.dumps(status))


async def test_readings_turn_stale_in_an_adapter_outage_and_recover(world, adapter):
    a = await world.add_node("a")
    adapter.metrics = {"health_metric": {a: "1"}}
    await served(world)
    policy = await world.add_policy("p", deschedule=["health_metric Equals 1"])
    await world.start(*SOURCE)
    await world.labelled(a, **{policy: "violating"})
    adapter.metrics = {"health_metric": 503}
    await world.status(policy, lambda status: "no source has metric" in json.dumps(status))
    await world.labelled(a)
    adapter.metrics = {"health_metric": {a: "1"}}
    await world.labelled(a, **{policy: "violating"})
