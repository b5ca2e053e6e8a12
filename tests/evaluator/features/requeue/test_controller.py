"""Requeue annotations on the sandbox's API server: which pods, at which rate, and errors."""

import asyncio
import functools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from evaluator.core.cache import cluster
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.client import Kube
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.resources import LINKED_PODS, NODES
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import REQUEUED_AT
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.signals import PlacementChanged, wakes
from evaluator.features.requeue.controller import RequeueController, RequeueMetrics
from evaluator.features.requeue.plan import RequeueTimings
from tests.clock import Clock
from tests.examples import examples

KEY = PolicyKey("default", "demo")
REASON = "violating demo: heat GreaterThan 50"
PODS = "/api/v1/namespaces/default/pods"


@functools.cache
def reasons(refused):
    """As in decisions: the same object for the same nodes."""
    return dict.fromkeys(sorted(refused), REASON)


class RequeueWorld:
    """A requeue controller in a fake environment: given rejections, nodes and pods from the API server."""

    def __init__(self, kube, rng):
        self.registry = CollectorRegistry()
        self.metrics = RequeueMetrics(self.registry)
        self.clock = Clock(1_800_000_000.0)
        self.cluster = ClusterCache()
        self.decided = SimpleNamespace(latest=Decisions(), waiting_for=["everything"])
        self.leads = True
        self.requeuer = RequeueController(
            kube,
            self.cluster,
            self.decided,
            self.metrics,
            is_leader=lambda: self.leads,
            pace=RequeueTimings(settle=0.0),
            clock=self.clock,
            rng=rng,
        )
        self.cluster.signals.connect(wakes(self.requeuer.wake, PlacementChanged))
        self.watchers = [
            Reflector(kube, NODES, cluster.decode_node, self.cluster.nodes, rng=rng),
            Reflector(kube, LINKED_PODS, cluster.decode_pod, self.cluster.pods, rng=rng),
        ]

    def refuse(self, *nodes):
        self.decide(nodes)

    def decide(self, refused, unreported=frozenset()):
        decision = Decision(
            Policy(KEY),
            {StrategyName.DONTSCHEDULE: reasons(frozenset(refused))},
            unreported=unreported,
        )
        self.decided.latest = Decisions(MetricTable(("node-a", "node-b"), {}), {KEY: decision})
        self.decided.waiting_for = []
        self.requeuer.decided()

    def counted(self, result):
        return self.registry.get_sample_value("plimsoll_nudges_total", {"result": result}) or 0


@pytest.fixture
async def world(api, connect, rng, background):
    for node in ("node-a", "node-b"):
        await api.node(node)
    made = RequeueWorld(await connect(api.url), rng)
    for watcher in made.watchers:
        background(watcher.run())
    made.refuse("node-a", "node-b")
    background(made.requeuer.run())
    return made


@pytest.fixture
def add_rejected_pod(api):
    """Create a pod that the scheduler could not place."""

    async def add(name, message=f"0/2 nodes are available: 2 {REASON}."):
        await api.pod(name)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        await api.merge(f"{PODS}/{name}/status", {"status": {"conditions": [condition]}})

    return add


def refused(world):
    """Return the pods known to be rejected."""
    return [pod for pod in world.cluster.pods.objects.values() if pod.unschedulable_because]


async def annotation(api, name):
    return ((await api.get(f"{PODS}/{name}"))["metadata"].get("annotations") or {}).get(REQUEUED_AT)


async def test_only_the_pod_with_a_new_feasible_node_is_requeued(
    api, world, until, add_rejected_pod
):
    await add_rejected_pod("web")
    await add_rejected_pod("full", "0/2 nodes are available: 2 Insufficient cpu.")
    await until(lambda: len(refused(world)) == 2)
    world.refuse("node-b")
    await until(lambda: world.counted("ok") == 1)
    assert await annotation(api, "web") == "2027-01-15T08:00:00.000Z"
    assert await annotation(api, "full") is None


async def test_clock_set_back_delays_no_requeue(api, world, until, add_rejected_pod):
    await add_rejected_pod("web")
    await until(lambda: len(refused(world)) == 1)
    world.refuse("node-b")
    await until(lambda: world.counted("ok") == 1)
    world.refuse("node-a", "node-b")
    world.clock.now -= 3600
    world.refuse("node-a")
    await until(lambda: world.counted("ok") == 2)
    assert await annotation(api, "web") == "2027-01-15T07:00:00.000Z"


async def test_replica_requeues_once_it_leads(api, world, until, add_rejected_pod):
    world.leads = False
    await add_rejected_pod("web")
    await until(lambda: refused(world))
    world.refuse("node-b")
    await add_rejected_pod("later")
    await until(lambda: len(refused(world)) == 2)
    assert world.counted("ok") == 0
    world.leads = True
    world.requeuer.wake()
    await until(lambda: world.counted("ok") == 2)


async def test_pod_deleted_meanwhile_is_no_error(api, world, until, add_rejected_pod):
    await add_rejected_pod("web")
    await until(lambda: refused(world))
    (pod,) = refused(world)
    pod.metadata.uid = "another"  # as if it had been recreated without a watch event yet
    world.refuse("node-b")
    await add_rejected_pod("next")
    await until(lambda: world.counted("ok") == 1)
    assert await annotation(api, "next")
    assert world.counted("error") == 0


@pytest.mark.parametrize("status", [403, 500])
async def test_refusal_of_one_pod_costs_no_other_anything(
    api, world, until, add_rejected_pod, monkeypatch, status
):
    usual, asked = Kube.annotate_pod, []

    async def webhook(kube, namespace, name, *rest):
        asked.append(name)
        if name == "bad":
            raise KubeError(status, "a webhook denied the request")
        return await usual(kube, namespace, name, *rest)

    monkeypatch.setattr(Kube, "annotate_pod", webhook)
    for name in ("bad", "good", "late"):
        await add_rejected_pod(name)
    await until(lambda: len(refused(world)) == 3)
    world.refuse("node-b")
    await until(lambda: world.counted("ok") == 2)
    assert asked.count("bad") == 1, "the others do not wait for it, nor does it try again at once"
    await until(lambda: asked.count("bad") > 1)
    assert {name for name in asked if name != "bad"} == {"good", "late"}


async def test_failed_requeue_is_retried(stub_server, answer, connect, rng, background, until):
    world = RequeueWorld(await connect(stub_server.url), rng)
    world.refuse("node-a", "node-b")
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": REASON,
    }
    pod = {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "u",
            "labels": {"telemetry-policy": "demo"},
        },
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": "node-a"}, "status": ready}
    world.cluster.pods.put(cluster.decode_pod(json.dumps(pod)))
    world.cluster.nodes.put(cluster.decode_node(json.dumps(node)))
    stub_server.then(answer.refuses(500), answer.refuses(429), answer.says(200, pod))
    world.refuse("node-b")
    background(world.requeuer.run())
    await until(lambda: world.counted("ok") == 1)
    assert world.counted("error") == 2
    asked = stub_server.asked[-1]
    assert (asked.method, asked.path) == ("PATCH", f"{PODS}/web/status")
    assert asked.json["metadata"]["uid"] == "u"


def waiting_pod(name, text, pool):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"telemetry-policy": "demo"},
        },
        "spec": {"nodeSelector": {"pool": pool}} if pool else {},
        "status": {"phase": "Pending", "conditions": [{**condition, "message": text}]},
    }
    return cluster.decode_pod(json.dumps(body))


def pooled_node(name, pool, ready):
    body = {
        "metadata": {"name": name, "labels": {"pool": pool}},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    return cluster.decode_node(json.dumps(body))


NODE_NAMES = ("node-a", "node-b")
node_names, pools = st.sampled_from(NODE_NAMES), st.sampled_from(["x", "y"])
texts = st.sampled_from([REASON, "0/2 nodes: 2 " + REASON, "Insufficient cpu"])
decide = st.tuples(
    st.just("decide"), st.frozensets(node_names), st.sampled_from([False, False, True])
)
pod = st.tuples(st.just("pod"), st.sampled_from(["web", "db"]), st.tuples(texts, st.none() | pools))
node = st.tuples(st.just("node"), node_names, st.tuples(pools, st.booleans()))
happenings = st.one_of(
    decide,
    decide,
    pod,
    node,
    st.tuples(st.just("goes"), st.sampled_from(["web", "db", "node-a", "node-b"]), st.none()),
    st.tuples(st.just("time"), st.sampled_from([0.5, 30.0, 400.0]), st.none()),
    st.tuples(st.just("nudge"), st.none(), st.none()),
)
AT_FIRST = (
    ("node", "node-a", ("x", True)),
    ("node", "node-b", ("y", True)),
    ("decide", frozenset(NODE_NAMES), False),
    ("pod", "web", (REASON, None)),
    ("decide", frozenset(["node-b"]), False),
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(happenings, max_size=12))
def test_incremental_scan_finds_the_same_pods_as_a_full_scan(happened):
    asyncio.run(compare([*AT_FIRST, *happened]))


async def compare(happened):
    patient, thorough = (RequeueWorld(None, None) for _ in range(2))
    for what, subject, more in happened:
        for world in (patient, thorough):
            befall(world, what, subject, more)
        thorough.requeuer._states = {
            key: replace(line, version=-1, basis=())
            for key, line in thorough.requeuer._states.items()
        }
        seen = [
            {(c.rejected.pod.metadata.name, c.start) for c in await world.requeuer._candidates()}
            for world in (patient, thorough)
        ]
        assert seen[0] == seen[1]


def befall(world, what, subject, more):
    known, requeuer = world.cluster, world.requeuer
    match what:
        case "decide":
            world.decide(subject, frozenset(["node-a"] if more else []))
        case "pod":
            known.pods.put(waiting_pod(subject, *more))
        case "node":
            known.nodes.put(pooled_node(subject, *more))
        case "time":
            world.clock.now += subject
        case "goes":
            for kind, key in ((known.pods, ("default", subject)), (known.nodes, subject)):
                if key in kind.objects:
                    kind.drop(kind.objects[key])
        case "nudge":
            refusals = [r for line in requeuer._states.values() for r in line.refused.values()]
            for refusal in refusals:
                requeuer._note(refusal, refusal.after_requeue(world.clock.now))
