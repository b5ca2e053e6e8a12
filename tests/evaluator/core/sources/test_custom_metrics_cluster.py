"""The evaluator on a cluster's custom metrics API: present and absent metrics decide."""

import asyncio
import datetime
import sys

import aiohttp
import pytest
from aiohttp import web

from tests.tuned_evaluator import tuned

pytestmark = pytest.mark.e2e

GROUP = "/apis/custom.metrics.k8s.io"


class Adapter:
    """The sandbox's API server extended by a custom metrics API: node → value, or a failure."""

    def __init__(self, behind, session):
        self.version = "v1beta1"
        self.metrics = {}
        self._behind = behind
        self._session = session
        self._runner = None
        self.url = ""

    async def start(self):
        app = web.Application()
        app.router.add_get(GROUP, self._group)
        app.router.add_get(GROUP + "/{version}/nodes/*/{metric}", self._metric)
        app.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0])

    async def stop(self):
        await self._runner.cleanup()

    async def _group(self, _request):
        return web.json_response({"kind": "APIGroup", "versions": [{"version": self.version}]})

    async def _metric(self, request):
        says = self.metrics.get(request.match_info["metric"], 404)
        if request.match_info["version"] != self.version:
            says = 404
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

    async def _forward(self, request):
        headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        url, body = self._behind + request.raw_path, await request.read()
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            found = web.StreamResponse(
                status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
            )
            await found.prepare(request)
            async for chunk in answer.content.iter_any():
                await found.write(chunk)
            return found


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.fixture
async def adapter(api, session):
    made = Adapter(api.url, session)
    await made.start()
    await api.policies()
    for node in ("node-a", "node-b"):
        await api.node(node)
    yield made
    await made.stop()


@pytest.fixture
async def start(adapter, run, kubeconfig):
    async def run_evaluator(*argv):
        return await run(
            *(sys.executable, "-P", *tuned(agent_limits={"reconnect": 0.0})),
            *("--unsafe", "--bindAddress=127.0.0.1"),
            *("--port=0", "--opsPort=0", "--agentPort=0", "--syncPeriod=100ms", "--staleAfter=2s"),
            *(f"--kubeConfig={kubeconfig(adapter.url)}", "--sourceTimeout=300ms", *argv),
        )

    return run_evaluator


async def until_labelled(api, node, *, violating):
    wanted = "violating" if violating else None
    await api.seen(
        f"/api/v1/nodes/{node}",
        lambda found: found["metadata"].get("labels", {}).get("demo") == wanted,
    )


def policy_path(name):
    return f"/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/{name}"


async def test_hanging_and_missing_metrics_delay_no_other(api, adapter, start, tas, rule):
    adapter.metrics = {"health_metric": {"node-a": "2", "node-b": "0"}, "slow": "hang"}
    await api.policy(tas("demo", "default", deschedule=[rule("health_metric Equals 2")]))
    await api.policy(tas("slow", "default", dontschedule=[rule("slow Equals 2")]))
    await api.policy(tas("none", "default", dontschedule=[rule("nobody_has_it Equals 2")]))
    evaluator = await start("--metricsSource=custom-metrics")
    await until_labelled(api, "node-a", violating=True)
    adapter.metrics["health_metric"] = {"node-a": "1500m", "node-b": "2k"}
    await until_labelled(api, "node-a", violating=False)
    adapter.metrics["health_metric"] = {"node-a": "2"}  # and node-b is missing, not zero
    await until_labelled(api, "node-a", violating=True)

    def says(text):
        return lambda found: text in str(found.get("status", {}))

    await api.seen(policy_path("demo"), says("no usable reading of health_metric on 1 of 2 nodes"))
    for name, text in (
        ("none", "no source has metric nobody_has_it (custom-metrics: 404"),
        ("slow", "no source has metric slow (custom-metrics: no response within 300ms)"),
    ):
        await api.seen(policy_path(name), says(text))
    await evaluator.said("custom-metrics has no answer for nobody_has_it: 404")
    assert not any("Traceback" in line for line in evaluator.lines)


async def test_adapter_of_another_version_is_discovered_again(api, adapter, start, tas, rule):
    adapter.metrics = {"health_metric": {"node-a": "2", "node-b": "0"}}
    await api.policy(tas("demo", "default", deschedule=[rule("health_metric Equals 2")]))
    evaluator = await start("--metricsSource=custom-metrics")
    await until_labelled(api, "node-a", violating=True)
    adapter.metrics = {"health_metric": 500}
    await evaluator.said("custom-metrics has no answer for health_metric: 500")
    await until_labelled(api, "node-a", violating=False)  # unknown and not guessed
    adapter.version, adapter.metrics = "v1beta2", {"health_metric": {"node-a": "0", "node-b": "2"}}
    await until_labelled(api, "node-b", violating=True)


async def test_next_source_is_used_where_agents_are_silent(api, adapter, start, tas, rule):
    adapter.metrics = {"health_metric": {"node-a": "2", "node-b": "0"}}
    await api.policy(tas("demo", "default", deschedule=[rule("health_metric Equals 2")]))
    await start("--metricsSource=agents,custom-metrics")
    await until_labelled(api, "node-a", violating=True)
