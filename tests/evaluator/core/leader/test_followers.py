"""A follower writes nothing, and on becoming leader everything that is due."""

import asyncio
import inspect
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.client import Kube
from evaluator.core.kube.resources import NODES
from evaluator.core.leader.write_fence import NotLeaderError, WriteFence
from evaluator.core.model.names import ObjectMeta, PolicyKey
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeStatus
from evaluator.core.model.node_labels import LabelApply
from evaluator.core.model.pod import Pod, PodSpec
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.evictions.controller import EvictionController, EvictionMetrics
from evaluator.features.evictions.plan import EvictionRate
from evaluator.features.status.controller import StatusController
from plimsoll.ratelimit import TokenBucket

KEY = PolicyKey("default", "demo")
OBJECT = {"metadata": {"namespace": "default", "name": "x", "resourceVersion": "1"}, "spec": {}}

CALLS = {
    name: method
    for name, method in inspect.getmembers(Kube, inspect.isfunction)
    if not name.startswith("_") and name != "close"
}
ALLOWED = {
    "review_token": "changes nothing, and every replica authenticates its own clients",
    "review_access": "changes nothing, and every replica authorizes its own clients",
    "write_lease": "every replica may try to become the leader",
}
"""Writes that a follower may send, and why."""

ARGUMENTS = {
    "apply": LabelApply("n", "u", {}),
    "key": KEY,
    "resource": NODES,
    "timeout": 60.0,
    **dict.fromkeys(("node", "status", "event", "changes", "body", "annotations"), OBJECT),
    "fields": [],
    "operations": [],
}
"""Arguments by parameter name; any other is a string."""
OTHERS = {
    "apply_node_annotations": {"node": Node(NodeMeta(name="n", uid="u"))},
    "get_raw": {"path": "/apis/g/v1/m", "largest": 10_000},
}
"""Arguments of methods that take other kinds."""


@pytest.fixture
async def kube(stub_server, answer, connect):
    stub_server.otherwise(answer.says(200, OBJECT))
    return await connect(stub_server.url)


async def call(kube, name):
    """Call a method of Kube with an argument for each required parameter."""
    arguments = ARGUMENTS | OTHERS.get(name, {})
    parameters = inspect.signature(CALLS[name]).parameters.values()
    required = [one for one in parameters if one.default is one.empty and one.name != "self"]
    positional = [
        arguments.get(one.name, "x") for one in required if one.kind is not one.KEYWORD_ONLY
    ]
    named = {
        one.name: arguments.get(one.name, "x") for one in required if one.kind is one.KEYWORD_ONLY
    }
    answered = CALLS[name](kube, *positional, **named)
    if inspect.isasyncgen(answered):
        return [line async for line in answered]
    return await answered


@pytest.mark.parametrize("name", sorted(CALLS.keys() - ALLOWED.keys()))
async def test_follower_sends_only_reads(stub_server, kube, name):
    """Each method of Kube either reads, or sends nothing until the replica leads."""
    fence = WriteFence()
    kube.fence = fence.write
    try:
        await call(kube, name)
    except NotLeaderError:
        assert stub_server.asked == []
        fence.extend()
        await call(kube, name)
        assert len(stub_server.asked) == 1
        assert stub_server.asked[0].method != "GET"
    else:
        assert {asked.method for asked in stub_server.asked} == {"GET"}


async def test_follower_may_write_the_lease(stub_server, kube):
    kube.fence = WriteFence().write
    await kube.write_lease(OBJECT)
    assert [(asked.method, asked.path.rpartition("/")[2]) for asked in stub_server.asked] == [
        ("PUT", "x")
    ]


class Replica:
    """A replica with given decisions that leads on request."""

    def __init__(self, kube):
        self.leading = False
        self.now = 1000.0
        self.cluster = ClusterCache()
        self.decided = SimpleNamespace(latest=Decisions(), waiting_for=[])
        self.reporter = StatusController(
            kube, self.decided, is_leader=lambda: self.leading, pause=0.001
        )
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
            clock=lambda: self.now,
        )

    def violate(self):
        well = NodeStatus(conditions=[NodeCondition("Ready", "True")])
        names = ("sick", "well")
        self.cluster.nodes.replace([Node(NodeMeta(name=name), status=well) for name in names])
        labels = {"telemetry-policy": "demo"}
        meta = ObjectMeta(name="web", namespace="default", uid="u", labels=labels)
        self.cluster.pods.replace([Pod(meta, spec=PodSpec(node_name="sick"))])
        decision = Decision(Policy(KEY), {StrategyName.DESCHEDULE: {"sick": "violating demo"}})
        self.decided.latest = Decisions(policies={KEY: decision})


@pytest.fixture
async def follower(kube):
    return Replica(kube)


async def some_turns():
    """Event loop iterations: enough for a write to be sent."""
    for _ in range(50):
        await asyncio.sleep(0.001)


async def test_follower_writes_no_status_and_a_new_leader_writes_each(
    stub_server, follower, background
):
    follower.violate()
    background(follower.reporter.run())
    follower.reporter.wake()
    await some_turns()
    assert stub_server.asked == []
    for term in (1, 2):  # another replica may have replaced what it wrote in its first term
        follower.leading = True
        follower.reporter.start_over()
        assert (await stub_server.until(term))[-1].path.endswith("/taspolicies/demo/status")
        follower.leading = False
        follower.reporter.wake()
        await some_turns()
    assert len(stub_server.asked) == 2


async def test_follower_evicts_nothing(stub_server, follower, background):
    follower.violate()
    background(follower.evictor.run())
    follower.evictor.wake()
    await some_turns()
    assert stub_server.asked == []


async def test_new_leader_waits_an_eviction_period(stub_server, follower, background):
    """The last leader may have evicted a moment ago."""
    follower.violate()
    background(follower.evictor.run())
    follower.leading = True
    follower.evictor.start_over()
    await some_turns()
    assert stub_server.asked == []
    follower.now += 60.0
    follower.evictor.wake()
    first, _event = await stub_server.until(2)
    assert first.path.endswith("/pods/web/eviction")


async def test_leader_from_the_start_does_not_wait(stub_server, follower, background):
    background(follower.evictor.run())
    follower.leading = True
    follower.evictor.start_over()
    follower.violate()
    follower.evictor.wake()
    assert (await stub_server.until(1))[0].path.endswith("/pods/web/eviction")
