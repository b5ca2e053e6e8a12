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
from evaluator.features.evictions.api import evict
from evaluator.features.evictions.controller import EvictionController, EvictionMetrics
from evaluator.features.evictions.plan import ClusterView, EvictionRate
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
        self.touched = 0

    @property
    def latest(self):
        self.on_read()
        return self._latest

    @latest.setter
    def latest(self, decisions):
        self._latest = decisions

    def touch(self):
        self.touched += 1


class Evicting:
    """An eviction controller in a fake environment: given violations, nodes and pods from the API server."""

    def __init__(self, kube, rng, *, limit=1, placed=None):
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
            pace=EvictionRate(period=60.0, limit=limit),
            cluster=ClusterView(
                running=self.cluster.running,
                feasible_nodes=self.cluster.feasible_nodes,
                leaving=self.cluster.leaving,
                placed=placed,
            ),
            clock=self.clock,
            cause_of=self.causes.cause_of,
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

    def part(self):
        """What the status and Events of the policy say."""
        strategies = {StrategyName.DESCHEDULE: None}
        return self.evictor.report.part(Decision(Policy(KEY, strategies)))

    def said(self):
        """The message of the condition about pods that stay; empty if none does."""
        (condition,) = self.part().conditions
        return condition.message if condition.status == "True" else ""

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
EVENTS = "/api/v1/namespaces/default/events"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def names(api):
    return sorted(pod["metadata"]["name"] for pod in (await api.get(PODS))["items"])


async def web(api, name, node="node-b", owner="web", **spec):
    """A running pod of a ReplicaSet."""
    made = await api.pod(name, node, owner=owner, **spec)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.merge(f"{PODS}/{name}/status", {"status": ready})
    return made


async def budget(api, name, app="web", **spec):
    """A PodDisruptionBudget of the pods of an app."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {**spec, "selector": {"matchLabels": {"app": app}}},
    }
    await api.call("POST", BUDGETS, body)


async def test_one_pod_of_the_policy_is_evicted_per_period(api, world, until):
    for name in ("web-1", "web-2"):
        await web(api, name)
    await api.pod("other", "node-b", policy="another", owner="other")
    await api.pod("unlinked", "node-b", policy=None, owner="unlinked")
    await web(api, "well", "node-a")
    await until(lambda: len(world.cluster.pods.objects) == 4)
    world.violated("node-b")
    await until(lambda: world.counted("ok") == 1)
    assert len(await names(api)) == 4
    assert {"other", "unlinked", "well"} < {*await names(api)}

    world.evictor.wake()
    await api.pod("web-3", "node-b", owner="new")
    await until(lambda: ("default", "web-3") in world.cluster.pods.objects)
    assert world.counted("ok") == 1

    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 2)
    assert len(await names(api)) == 4


async def test_pod_whose_eviction_raises_costs_only_itself(api, world, kube, until, monkeypatch):
    for name in ("web-1", "web-2"):
        await web(api, name)
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
    made = await api.pod("web", "node-b", owner="web")
    world.violated("node-b")
    await until(lambda: world.counted("ok") == 1)
    (event,) = (await api.get("/api/v1/namespaces/default/events"))["items"]
    assert (event["type"], event["reason"]) == ("Warning", "PolicyViolated")
    assert event["message"] == f"Evicted: node node-b {REASON}"
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert event["source"] == {"component": "plimsoll"}


async def test_event_of_an_eviction_names_the_device_of_the_reading(api, world, until):
    await api.pod("web", "node-b", owner="web")
    world.causes.report("node-b", {"health": "gpu: UUID=GPU-1"})
    world.causes.report("node-a", {"health": "gpu: UUID=GPU-2"})
    world.read({"node-a": 0.0, "node-b": 2.0, "node-c": 0.0})
    await until(lambda: world.counted("ok") == 1)
    (event,) = (await api.get("/api/v1/namespaces/default/events"))["items"]
    assert event["message"] == f"Evicted: node node-b {REASON} (gpu: UUID=GPU-1)"


async def test_pods_stay_until_another_node_can_take_them(api, world, until):
    await api.pod("web", "node-b", owner="web")
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
        await web(api, name)
    await until(lambda: len(world.cluster.pods.objects) == 2)
    world.violated("node-b")
    await until(lambda: world.counted("ok") == 1)
    begin = world.clock.now

    world.clock.now += 59.9
    world.decided.on_read = lambda: setattr(world.clock, "now", begin + 60.1)
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 2)


async def test_disruption_budget_is_respected_and_named_and_tried_again(api, world, until):
    await budget(api, "web-budget", minAvailable=1)
    await web(api, "web")
    world.violated("node-b")
    await until(lambda: world.counted("refused") == 1)
    world.evictor.wake()
    world.evictor.wake()
    await until(lambda: "PodDisruptionBudget web-budget permits no eviction now" in world.said())
    assert "1 pod (default/web) stay" in world.said()
    assert list(world.part().episodes.values()) == [True]
    assert await names(api) == ["web"]

    await api.delete(f"{BUDGETS}/web-budget")
    assert world.counted("refused") == 1  # an immediate retry would get the same response
    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 1)
    assert await names(api) == []
    await until(lambda: not world.said())


async def test_pod_that_a_budget_keeps_has_an_event_that_names_the_budget(api, world, until):
    await budget(api, "web-budget", minAvailable=1)
    await web(api, "web")
    world.violated("node-b")
    await until(world.said)
    world.clock.now += 4.0  # until the message has settled
    world.evictor.wake()

    found = await api.seen(
        EVENTS, lambda found: [one for one in found["items"] if one["reason"] == "NotEvicted"]
    )
    (event,) = [one for one in found["items"] if one["reason"] == "NotEvicted"]
    assert event["involvedObject"]["name"] == "web"
    assert "PodDisruptionBudget web-budget" in event["message"]


@pytest.mark.parametrize("budgets", [{"a": {"minAvailable": 3}}, {"a": {"maxUnavailable": 1}, "b": {"maxUnavailable": 1}}])  # fmt: skip
async def test_pods_behind_budgets_do_not_hold_up_the_pods_beside_them(api, world, until, budgets):
    """429 of one budget, 500 of two: the pods of that owner rest, the other leaves in the same period."""
    for name, spec in budgets.items():
        await budget(api, name, app="database", **spec)
    for number in range(3):
        await web(api, f"a-database-{number}", owner="database", app="database")
    high = {"metadata": {"name": "high"}, "value": 1000}
    await api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", high)
    await web(api, "web", priorityClassName="high")
    await until(lambda: len(world.cluster.pods.objects) == 4)
    world.violated("node-b")
    await until(lambda: world.counted("ok") == 1)
    assert "web" not in await names(api)
    assert world.counted("refused") + world.counted("error") == 1
    await until(lambda: "3 pods" in world.said())
    assert ("PodDisruptionBudget a " in world.said()) is (len(budgets) == 1)
    assert ("more than one PodDisruptionBudget" in world.said()) is (len(budgets) == 2)


async def test_refusals_do_not_use_up_the_hour(api, world, until):
    await budget(api, "web-budget", minAvailable=1)
    await web(api, "web")
    world.violated("node-b")
    for number in range(10):
        world.evictor.wake()
        await until(lambda number=number: world.counted("refused") == number + 1)
        world.clock.now += 60.0
    await api.delete(f"{BUDGETS}/web-budget")
    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 1)


async def test_pods_that_nothing_recreates_stay_and_are_named(api, world, until):
    await api.pod("bare", "node-b")
    world.violated("node-b")
    await until(world.said)
    assert world.said() == "1 pod (default/bare) stay: nothing would recreate them"
    assert await names(api) == ["bare"]
    decision = Decision(Policy(KEY))
    (shown,) = world.evictor.report.policy(decision).pods_stay
    assert (shown.why, shown.pods) == ("nothing would recreate them", ["default/bare"])
    (pod,) = world.cluster.pods.objects.values()
    assert world.evictor.report.pod(pod).not_evicted == "nothing would recreate them"


async def test_controller_looks_again_by_itself_until_the_readings_include_a_pod(
    api, connect, rng, background, until
):
    """In a cluster in which nothing else changes, no decision and no watch event wakes it."""

    class Placed:
        waits = 3

        def included_at(self, uid, decision, decisions):
            self.waits = max(0, self.waits - 1)
            return world.clock.now - 1.0 if self.waits else 0.0

        def crowded(self, *_):
            return []

    for node in ("node-a", "node-b"):
        await api.node(node)
    await web(api, "web")
    world = Evicting(await connect(api.url), rng, placed=Placed())
    for loop in (*(watcher.run for watcher in world.watchers), world.evictor.run):
        background(loop())
    await until(lambda: world.cluster.pods.objects and len(world.cluster.nodes.objects) == 2)
    world.violated("node-b")
    await until(lambda: world.decided.touched)
    world.clock.now += 30.0
    await until(lambda: world.counted("ok") == 1)


async def test_no_pod_is_evicted_before_the_first_decision(api, world, until):
    await api.pod("web", "node-b", owner="web")
    await until(lambda: world.cluster.pods.objects)
    world.decided.waiting_for = ["the first report of 1 node"]
    world.violated("node-b")
    await api.pod("web-2", "node-b", owner="web")
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
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
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
    data = {"evictions.json": '{"writer":"x","policies":{}}'}
    stored = answer.says(200, {"metadata": {"resourceVersion": "1"}, "data": data})
    stub_server.then(
        *(stored, stored, stored, stored),  # read, taken over, written, reserved
        answer.refuses(500),
        *(stored, stored),  # not used, reserved
        answer.says(201, {}),
        answer.refuses(403),  # the event fails, the eviction stands
        stored,
    )
    background(world.evictor.run())
    world.violated("node-b")
    await until(lambda: len(stub_server.asked) == 6)
    assert world.counted("error") == 1
    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: world.counted("ok") == 1)


POD = (
    b'{"metadata":{"name":"web","namespace":"default","uid":"u","labels":{"telemetry-policy":"demo"},'
    b'"ownerReferences":[{"kind":"ReplicaSet","name":"web","uid":"r","controller":true}]},'
    b'"spec":{"nodeName":"node-b"},"status":{"phase":"Running"}}'
)
READY_NODE = cluster.decode_node(
    b'{"metadata":{"name":"node-a"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
)


async def test_eviction_without_an_answer_counts_until_it_is_known_that_it_did_not_happen(
    stub_server, answer, connect, rng, background, until
):
    """A request whose answer is lost may have been carried out: the limit of a period holds, whatever the network does."""
    world = Evicting(await connect(stub_server.url), rng)
    world.cluster.nodes.replace(
        [cluster.decode_node(b'{"metadata":{"name":"node-b"}}'), READY_NODE]
    )
    world.cluster.pods.replace([cluster.decode_pod(POD), cluster.decode_pod(OTHER_POD)])
    data = {"evictions.json": '{"writer":"x","policies":{}}'}
    stored = answer.says(200, {"metadata": {"resourceVersion": "1"}, "data": data})
    stub_server.then(stored, stored, stored, stored, answer.refuses(504))
    stub_server.otherwise(stored)
    background(world.evictor.run())
    world.violated("node-b")
    await until(lambda: world.counted("error") == 1)
    assert len(sent(stub_server)) == 1
    planned = []
    world.decided.on_read = lambda: planned.append(True)
    world.clock.now += 59.0
    world.evictor.wake()
    await until(lambda: planned)
    assert len(sent(stub_server)) == 1
    world.clock.now += 60.0
    world.evictor.wake()
    await until(lambda: len(sent(stub_server)) == 2)
    key = PolicyKey("default", "demo")
    await until(lambda: world.counted("ok") == 1)
    assert len(world.evictor._history.done(key, 0.0)) == 1, "the first did not happen"


def sent(server):
    """The evictions that were requested."""
    return [asked for asked in server.asked if asked.path.endswith("/eviction")]


OTHER_POD = POD.replace(b'"web","namespace"', b'"web-2","namespace"').replace(
    b'"uid":"u"', b'"uid":"u2"'
)


async def test_metric_says_that_evictions_are_not_stored_until_they_are(
    stub_server, answer, connect, rng, background, until
):
    """Also if no pod is to be evicted any more: the alert ends with its cause."""
    world = Evicting(await connect(stub_server.url), rng)
    world.cluster.nodes.replace(
        [cluster.decode_node(b'{"metadata":{"name":"node-b"}}'), READY_NODE]
    )
    world.cluster.pods.replace([cluster.decode_pod(POD)])

    def metric():
        return world.registry.get_sample_value("plimsoll_evictions_not_stored")

    assert metric() == 0
    stub_server.then(answer.refuses(403))
    stub_server.otherwise(answer.says(200, {"metadata": {"resourceVersion": "1"}, "data": DATA}))
    background(world.evictor.run())
    world.violated("node-b")
    await until(lambda: metric() == 1)
    world.decided.latest = Decisions()
    world.clock.now += 30.0
    world.evictor.wake()
    await until(lambda: metric() == 0)


DATA = {"evictions.json": '{"writer":"x","policies":{}}'}
