"""Evictions on the sandbox's API server: rate-limited, within disruption budgets, with an event."""

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache import cluster
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.resources import LINKED_PODS, NODES
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decision, Decisions, decide
from evaluator.core.policy.parse import parse
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.readings.reported import NodeCauses
from evaluator.core.readings.store import Store
from evaluator.core.signals import PlacementChanged, wakes
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.evictions.controller import (
    EvictionController,
    EvictionMetrics,
    evict,
)
from evaluator.features.evictions.plan import EvictionRate
from plimsoll.ratelimit import TokenBucket
from tests.clock import Clock
from tests.evaluator.conftest import make_rule, make_tas
from wire.codec import Delta

KEY = PolicyKey("default", "demo")
REASON = "violating demo: health Equals 2"


class Decided:
    """The latest decisions; `on_read` is called before they are read."""

    def __init__(self):
        self.waiting_for = []
        self._latest = Decisions()
        self.on_read = lambda: None

    @property
    def latest(self):
        self.on_read()
        return self._latest

    @latest.setter
    def latest(self, decisions):
        self._latest = decisions


class Evicting:
    """An eviction controller in a fake environment: given violations, nodes and pods from the API server."""

    def __init__(self, kube, rng):
        self.registry = CollectorRegistry()
        self.metrics = EvictionMetrics(self.registry)
        self.clock = Clock()
        self.causes = NodeCauses()
        self.cluster = ClusterCache()
        self.decided = Decided()
        self.evictor = EvictionController(
            WriteContext(
                kube=kube,
                cluster=self.cluster,
                decider=self.decided,
                bucket=TokenBucket(rate=1e6, burst=1000),
            ),
            self.metrics,
            pace=EvictionRate(period=60.0, limit=1),
            clock=self.clock,
            cause_of=self.causes.of,
        )
        self.cluster.signals.connect(wakes(self.evictor.wake, PlacementChanged))
        self.watchers = [
            Reflector(kube, NODES, cluster.decode_node, self.cluster.nodes, rng=rng),
            Reflector(kube, LINKED_PODS, cluster.decode_pod, self.cluster.pods, rng=rng),
        ]

    def violated(self, *nodes):
        """These nodes violate the policy, without the readings."""
        decision = Decision(Policy(KEY), {StrategyName.DESCHEDULE: dict.fromkeys(nodes, REASON)})
        self.decided.latest = Decisions(policies={KEY: decision})
        self.evictor.wake()

    def read(self, values):
        """Nodes have these readings, and the policy is decided on them."""
        store = Store(stale_after=1e9, started=-1e9)
        store.subscribe({"health"})
        for node, value in values.items():
            store.report(node, Delta({"health": value}), 0.0)
        made = make_tas("demo", deschedule=[make_rule("health Equals 2")])
        made["metadata"]["namespace"] = "default"
        self.decided.latest = decide([parse(made)], values, store, now=0.0)
        self.evictor.wake()

    def counted(self, result):
        labels = {"namespace": "default", "policy": "demo", "result": result}
        return self.registry.get_sample_value("plimsoll_evictions_total", labels) or 0


@pytest.fixture
async def kube(api, connect):
    return await connect(api.url)


@pytest.fixture
async def world(api, kube, rng, background):
    for node in ("node-a", "node-b", "node-c"):
        await api.node(node)
    made = Evicting(kube, rng)
    for watcher in made.watchers:
        background(watcher.run())
    background(made.evictor.run())
    return made


PODS = "/api/v1/namespaces/default/pods"


async def names(api):
    return sorted(pod["metadata"]["name"] for pod in (await api.get(PODS))["items"])


async def test_one_pod_of_the_policy_is_evicted_per_period(api, world, until):
    for name in ("web-1", "web-2"):
        await api.pod(name, "node-b")
    await api.pod("other", "node-b", policy="another")
    await api.pod("unlinked", "node-b", policy=None)
    await api.pod("well", "node-a")
    await until(lambda: len(world.cluster.pods.objects) == 4)
    world.violated("node-b")
    await until(lambda: world.counted("ok") == 1)
    assert await names(api) == ["other", "unlinked", "web-2", "well"]

    world.evictor.wake()
    await api.pod("web-3", "node-b")
    await until(lambda: ("default", "web-3") in world.cluster.pods.objects)
    assert world.counted("ok") == 1

    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 2)
    assert await names(api) == ["other", "unlinked", "web-3", "well"]


async def test_pod_whose_eviction_raises_costs_only_itself(api, world, kube, until, monkeypatch):
    for name in ("web-1", "web-2"):
        await api.pod(name, "node-b")
    evict_pod, tried = kube.create_subresource, []

    async def odd(namespace, name, *rest):
        if name == "web-1":
            tried.append(name)
            raise ValueError(name)
        return await evict_pod(namespace, name, *rest)

    monkeypatch.setattr(kube, "create_subresource", odd)
    await until(lambda: len(world.cluster.pods.objects) == 2)
    world.violated("node-b")
    await until(lambda: tried)
    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 1)
    assert await names(api) == ["web-1"]


async def test_reason_of_an_eviction_is_written_as_an_event(api, world, until):
    made = await api.pod("web", "node-b")
    world.violated("node-b")
    await until(lambda: world.counted("ok") == 1)
    (event,) = (await api.get("/api/v1/namespaces/default/events"))["items"]
    assert (event["type"], event["reason"]) == ("Warning", "PolicyViolated")
    assert event["message"] == f"Evicted: node node-b {REASON}"
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert event["source"] == {"component": "plimsoll"}


async def test_event_of_an_eviction_names_the_device_of_the_reading(api, world, until):
    await api.pod("web", "node-b")
    world.causes.report("node-b", {"health": "gpu: UUID=GPU-1"})
    world.causes.report("node-a", {"health": "gpu: UUID=GPU-2"})
    world.read({"node-a": 0.0, "node-b": 2.0, "node-c": 0.0})
    await until(lambda: world.counted("ok") == 1)
    (event,) = (await api.get("/api/v1/namespaces/default/events"))["items"]
    assert event["message"] == f"Evicted: node node-b {REASON} (gpu: UUID=GPU-1)"


async def test_pods_stay_until_another_node_can_take_them(api, world, until):
    await api.pod("web", "node-b")
    await until(lambda: world.cluster.pods.objects)
    world.violated("node-a", "node-b", "node-c")
    await api.node("node-d", unschedulable=True)
    await until(lambda: "node-d" in world.cluster.nodes.objects)
    assert await names(api) == ["web"]
    await api.merge("/api/v1/nodes/node-d", {"spec": {"unschedulable": None}})
    await until(lambda: world.counted("ok") == 1)


async def test_period_that_ends_during_a_plan_ends_the_wait(api, world, until):
    """The plan was a moment too early, and nothing else wakes the controller."""
    for name in ("web-1", "web-2"):
        await api.pod(name, "node-b")
    await until(lambda: len(world.cluster.pods.objects) == 2)
    world.violated("node-b")
    await until(lambda: world.counted("ok") == 1)
    begin = world.clock.now

    world.clock.now += 59.9
    world.decided.on_read = lambda: setattr(world.clock, "now", begin + 60.1)
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 2)


async def test_disruption_budget_is_respected_and_retried_next_period(api, world, until):
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    await api.call("POST", path, budget)
    await api.pod("web", "node-b")
    await api.merge(
        f"{PODS}/web/status",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    )
    world.violated("node-b")
    await until(lambda: world.counted("refused") == 1)
    world.evictor.wake()
    world.evictor.wake()
    assert await names(api) == ["web"]

    await api.delete(f"{path}/web")
    assert world.counted("refused") == 1  # an immediate retry would get the same response
    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 1)
    assert await names(api) == []


async def test_no_pod_is_evicted_before_the_first_decision(api, world, until):
    await api.pod("web", "node-b")
    await until(lambda: world.cluster.pods.objects)
    world.decided.waiting_for = ["the first report of 1 node"]
    world.violated("node-b")
    await api.pod("web-2", "node-b")
    await until(lambda: len(world.cluster.pods.objects) == 2)
    assert await names(api) == ["web", "web-2"]
    world.decided.waiting_for = []
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 1)


async def test_recreated_pod_of_the_same_name_is_not_evicted(
    api, stub_server, answer, connect, until, background, rng
):
    """The eviction has a uid precondition: it must not evict a successor that the watch has not reported yet."""
    world = Evicting(await connect(api.url), rng)
    await api.node("node-a")
    await api.node("node-b")
    await api.pod("web", "node-a")
    old = {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "uid-of-the-old-one",
            "labels": {"telemetry-policy": "demo"},
        },
        "spec": {"nodeName": "node-b"},
    }
    stub_server.then(answer.lists(old))
    behind = await connect(stub_server.url)
    background(Reflector(behind, LINKED_PODS, cluster.decode_pod, world.cluster.pods).run())
    background(world.watchers[0].run())
    background(world.evictor.run())
    await until(lambda: world.cluster.pods.objects and len(world.cluster.nodes.objects) == 2)
    world.violated("node-b")
    await until(lambda: world.counted("error") == 1)
    assert await names(api) == ["web"]


async def test_eviction_has_a_uid_precondition(stub_server, answer, connect):
    stub_server.then(answer.says(201, {}))
    await evict(await connect(stub_server.url), cluster.decode_pod(POD))
    (asked,) = stub_server.asked
    assert asked.path == "/api/v1/namespaces/default/pods/web/eviction"
    assert asked.json["kind"] == "Eviction"
    assert asked.json["deleteOptions"] == {"preconditions": {"uid": "u"}}


async def test_errors_are_counted_and_the_loop_continues(
    stub_server, answer, connect, rng, background, until
):
    world = Evicting(await connect(stub_server.url), rng)
    world.cluster.nodes.replace(
        [cluster.decode_node(b'{"metadata":{"name":"node-b"}}'), READY_NODE]
    )
    world.cluster.pods.replace([cluster.decode_pod(POD)])
    stub_server.then(
        answer.refuses(500),
        answer.says(201, {}),
        answer.refuses(403),  # the event fails, the eviction stands
    )
    background(world.evictor.run())
    world.violated("node-b")
    await until(lambda: world.counted("error") == 1)
    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 1)


POD = (
    b'{"metadata":{"name":"web","namespace":"default","uid":"u","labels":{"telemetry-policy":"demo"}},'
    b'"spec":{"nodeName":"node-b"},"status":{"phase":"Running"}}'
)
READY_NODE = cluster.decode_node(
    b'{"metadata":{"name":"node-a"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
)
