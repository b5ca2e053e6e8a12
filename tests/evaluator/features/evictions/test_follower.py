"""A follower evicts nothing, and a new leader waits until it may."""

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeStatus
from evaluator.core.model.pod import Owner, Pod, PodMeta, PodSpec
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.evictions.controller import EvictionController, EvictionMetrics
from evaluator.features.evictions.plan import ClusterView, EvictionRate
from plimsoll.ratelimit import TokenBucket

KEY = PolicyKey("default", "demo")
EVICTED = {"evictions.json": '{"writer":"x","policies":{"default/demo":[[10.0,1]]}}'}
NOBODY = {"evictions.json": '{"writer":"x","policies":{}}'}


def object_with(data):
    """What the API server answers to everything."""
    meta = {"namespace": "default", "name": "x", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {}, "data": data}


class Replica:
    """A replica with given decisions that leads on request."""

    def __init__(self, kube):
        self.leading = False
        self.now = 1000.0
        self.cluster = ClusterCache()
        self.decided = SimpleNamespace(latest=Decisions(), waiting_for=[])
        self.evictor = EvictionController(
            WriteContext(
                kube=kube,
                cluster=self.cluster,
                decider=self.decided,
                bucket=TokenBucket(1.0, 1),
                is_leader=lambda: self.leading,
            ),
            EvictionMetrics(CollectorRegistry()),
            pace=EvictionRate(period=60.0, limit=1),
            cluster=ClusterView(
                running=self.cluster.running, feasible_nodes=self.cluster.feasible_nodes
            ),
            clock=lambda: self.now,
        )

    def violate(self):
        """Let one of two nodes violate the policy of its only pod."""
        well = NodeStatus(conditions=[NodeCondition("Ready", "True")])
        names = ("sick", "well")
        self.cluster.nodes.replace([Node(NodeMeta(name=name), status=well) for name in names])
        labels = {"telemetry-policy": "demo"}
        owner = Owner("ReplicaSet", "web", "r")
        meta = PodMeta(name="web", namespace="default", uid="u", labels=labels, controller=owner)
        self.cluster.pods.replace([Pod(meta, spec=PodSpec(node_name="sick"))])
        decision = Decision(Policy(KEY), {StrategyName.DESCHEDULE: {"sick": "violating demo"}})
        self.decided.latest = Decisions(policies={KEY: decision})


@pytest.fixture
async def follower(stub_server, answer, connect):
    stub_server.otherwise(answer.says(200, object_with(EVICTED)))
    return Replica(await connect(stub_server.url))


async def some_turns():
    """Event loop iterations: enough for a write to be sent."""
    for _ in range(50):
        await asyncio.sleep(0.001)


async def test_follower_evicts_nothing(stub_server, follower, background):
    follower.violate()
    background(follower.evictor.run())
    follower.evictor.wake()
    await some_turns()
    assert stub_server.asked == []


def evictions(server):
    return [asked.path for asked in server.asked if asked.path.endswith("/pods/web/eviction")]


@pytest.mark.parametrize("stored", ["evicted", "nobody"])
async def test_new_leader_waits_for_a_period_and_no_longer(
    stub_server, answer, follower, background, until, stored
):
    """Case 21. The last leader may have evicted a pod a moment ago, and been killed while it could not store that."""
    found = {"evicted": EVICTED, "nobody": NOBODY}[stored]
    stub_server.otherwise(answer.says(200, object_with(found)))
    follower.violate()
    background(follower.evictor.run())
    follower.leading = True
    follower.evictor.start_over()
    await until(lambda: len(stub_server.asked) >= 3)  # read, taken over, written
    follower.now += 59.0
    follower.evictor.wake()
    await some_turns()
    assert evictions(stub_server) == []
    follower.now += 1.0
    follower.evictor.wake()
    await until(lambda: evictions(stub_server))


async def test_new_leader_without_what_the_last_one_stored_evicts_one_pod_in_a_period(
    stub_server, answer, follower, background, until
):
    stub_server.otherwise(answer.refuses(403))
    follower.violate()
    background(follower.evictor.run())
    follower.leading = True
    follower.evictor.start_over()
    await until(lambda: len(stub_server.asked) >= 1)
    await some_turns()
    assert evictions(stub_server) == []
    follower.now += 60.0
    follower.evictor.wake()
    await until(lambda: evictions(stub_server))
