"""Taints written to an API socket: conflicts are retried on the fresh node, and writes in flight count for limits."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache, decode_node
from evaluator.core.policy import parse
from evaluator.core.policy.causes import violation_message
from evaluator.core.policy.decide import decide
from evaluator.core.readings.reported import NodeCauses
from evaluator.core.readings.store import Store
from evaluator.core.signals import NodeActionsChanged, on_node, wakes
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.node_actions.controller import taint_writer
from evaluator.features.node_actions.limit import NodeLimit
from evaluator.features.node_actions.planner import (
    ActionsPlanned,
    NodeActionMetrics,
    NodeActionPlanner,
)
from evaluator.features.node_actions.types import ActionSettings
from evaluator.features.registry import VOCABULARY
from plimsoll.ratelimit import TokenBucket
from tests.evaluator.conftest import make_rule, make_tas, says
from wire.codec import Delta

KEY = "plimsoll.io/ns.demo"
OURS = {"key": KEY, "value": "violating", "effect": "NoSchedule"}
FOREIGN = {"key": "example.com/gpu", "effect": "NoSchedule"}


def node(name, version, *taints):
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": str(version)},
        "spec": {"taints": list(taints)} if taints else {},
    }


class Tainting:
    """A taint controller for a policy with the limit 1, and nodes that violate it."""

    def __init__(self, kube):
        made = make_tas("demo", dontschedule=[make_rule("m Equals 1")])
        made["metadata"]["annotations"] = {
            "plimsoll.io/actions": "taint",
            "plimsoll.io/taint-effect": "NoSchedule",
            "plimsoll.io/max-nodes": "1",
        }
        self.policy = parse.parse(made, vocabulary=VOCABULARY)
        self.store = Store(stale_after=1e9, started=-1e9)
        self.store.subscribe({"m"})
        self.cluster = ClusterCache()
        self.decided = SimpleNamespace(latest=None, waiting_for=[])
        settings = ActionSettings(taints=True, most=NodeLimit(100, percent=True))
        self.metrics = NodeActionMetrics(CollectorRegistry())
        self.planner = NodeActionPlanner(
            self.cluster,
            self.decided,
            self.metrics,
            settings,
            publish=self.cluster.signals.publish,
        )
        context = WriteContext(
            kube=kube,
            cluster=self.cluster,
            decider=self.decided,
            bucket=TokenBucket(rate=1e6, burst=1000),
        )
        self.controller = taint_writer(context, self.planner, self.metrics.taint_writes)
        self.cluster.signals.connect(
            [
                on_node(NodeActionsChanged, self.planner.changed),
                on_node(NodeActionsChanged, self.controller.wake),
                *wakes(self.controller.wake, ActionsPlanned),
            ]
        )

    def put(self, *nodes):
        for one in nodes:
            self.cluster.nodes.put(decode_node(json.dumps(one)))

    async def report(self, **values):
        for name, value in values.items():
            self.store.report(name, Delta({"m": value}, set()), 1.0)
        self.decided.latest = decide(
            [self.policy], self.cluster.names, self.store, now=1.0, before=self.decided.latest
        )
        await self.planner.plan()


@pytest.fixture
async def world(stub_server, connect):
    return Tainting(await connect(stub_server.url))


@pytest.mark.parametrize("status", [409, 422])
async def test_conflict_is_retried_on_the_fresh_node_with_all_taints_of_others(
    world, stub_server, background, status
):
    world.put(node("a", 7))
    fresh = node("a", 9, FOREIGN)
    stub_server.then(
        says(status, {"kind": "Status", "code": status}),
        says(200, {"metadata": {}, "items": [fresh]}),
        says(200, node("a", 10, FOREIGN, OURS)),
    )
    await world.report(a=1.0)
    background(world.controller.run())
    first, read, second = await stub_server.until(3)
    assert [(one["op"], one["path"]) for one in first.json] == [
        ("test", "/metadata/uid"),
        ("test", "/metadata/resourceVersion"),
        ("add", "/spec/taints"),
    ]
    assert (read.method, read.query["fieldSelector"]) == ("GET", "metadata.name=a")
    assert second.json[1]["value"] == "9"
    assert second.json[2] == {"op": "add", "path": "/spec/taints/-", "value": OURS}


async def test_write_in_flight_counts_for_the_limit(world, stub_server, background, until):
    world.put(node("a", 1), node("b", 1))
    await world.report(a=1.0)
    background(world.controller.run())
    await stub_server.until(1)  # and no answer
    assert world.planner.in_flight == {"a": frozenset({(KEY, "NoSchedule")})}
    await world.report(a=0.0, b=1.0)
    assert not world.planner.latest.taints
    assert world.planner.latest.policies[world.policy.key].held_back == 1


async def test_lost_response_counts_until_the_node_changes(world, stub_server, background, until):
    world.put(node("a", 1), node("b", 1))

    async def lost(request):
        request.transport.close()
        await asyncio.Event().wait()

    stub_server.then(lost)
    await world.report(a=1.0)
    running = background(world.controller.run())
    await until(lambda: world.planner.uncertain)
    running.cancel()
    await world.report(a=0.0, b=1.0)
    assert not world.planner.latest.taints
    heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-22T10:00:00Z"}
    world.put(node("a", 2) | {"status": {"conditions": [heartbeat]}})
    await world.planner.plan()
    assert list(world.planner.latest.taints) == ["b"]


async def test_nothing_is_written_before_the_first_plan(world, stub_server, background):
    world.put(node("a", 1, OURS))
    background(world.controller.run())
    world.controller.wake("a")
    await asyncio.sleep(0.05)
    assert not stub_server.asked
    stub_server.then(says(200, node("a", 2)))
    await world.report(a=0.0)
    (patch,) = await stub_server.until(1)
    assert patch.json[2] == {"op": "remove", "path": "/spec/taints/0"}


def test_message_of_a_condition_names_the_device_of_the_reading():
    made = parse.parse(
        make_tas("demo", dontschedule=[make_rule("m Equals 1")]), vocabulary=VOCABULARY
    )
    store = Store(stale_after=1e9, started=-1e9)
    store.subscribe({"m"})
    store.report("a", Delta({"m": 1.0}), 0.0)
    store.report("b", Delta({"m": 1.0}), 0.0)
    decisions = decide([made], ["a", "b"], store, now=0.0)
    causes = NodeCauses()
    causes.report("a", {"m": "gpu: UUID=GPU-1"})
    messages = [
        violation_message(decisions.policies[made.key], decisions.table, node, causes.cause_of)
        for node in "ab"
    ]
    assert messages == [
        "policy ns/demo is violated: m Equals 1 (reading 1: gpu: UUID=GPU-1)",
        "policy ns/demo is violated: m Equals 1 (reading 1)",
    ]
