"""The memory on the sandbox's API server: written at transitions only, read as a metric, and kept by flapping nodes."""

import json
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache, decode_node
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy import parse
from evaluator.core.policy.decide import decide
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import LABELS_ONLY
from evaluator.core.readings.store import Store
from evaluator.core.signals import Decided, NodeAnnotationsChanged, PolicyChanged, on_node, wakes
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.memory.controller import (
    MemoryMetrics,
    MemoryWrite,
    Transitions,
    memory_writer,
)
from evaluator.features.memory.feature import MemoryReport, removals
from evaluator.features.memory.page import FlappingFields
from evaluator.features.memory.readings import Held, Memories, WithScores, records, remembered
from evaluator.features.registry import VOCABULARY
from plimsoll.ratelimit import TokenBucket
from tests.evaluator.conftest import make_rule, make_tas
from wire.codec import Delta

KEY = PolicyKey("ns", "demo")
BEGIN = 1_790_000_000.0
HOUR = 3600.0


class World:
    """A policy with a memory, nodes of the sandbox's API server, and the writer; clocks are set by hand."""

    def __init__(self, kube, api, **strategies):
        made = make_tas("demo", **(strategies or {"dontschedule": [make_rule("m Equals 1")]}))
        made["metadata"]["annotations"] = {"plimsoll.io/memory": "30d"}
        self.policy = parse.parse(made, vocabulary=VOCABULARY)
        self.kube, self.api = kube, api
        self.now = BEGIN
        self.values = {}
        self.causes = {}
        self.start()

    def start(self):
        """Start an evaluator: nothing is known but what the API server has."""
        self.cluster, self.latest, self.waiting_for = ClusterCache(), None, []
        self.cluster.policies.put(self.policy)
        self.memories = Memories(lambda: self.cluster.policies.objects)
        self.cluster.signals.connect(wakes(self.memories.policies_changed, PolicyChanged))
        self.store = Store(stale_after=1e9, started=-1e9)
        self.store.subscribe({"m"})
        self.metrics = MemoryMetrics(CollectorRegistry())
        self.cluster.signals.connect([on_node(NodeAnnotationsChanged, self.changed)])
        self.latest = decide([], [], self.store, now=0.0)
        context = WriteContext(
            kube=self.kube, cluster=self.cluster, decider=self, bucket=TokenBucket(1e6, 1000)
        )
        transitions = Transitions(
            context,
            self.memories,
            wall=lambda: self.now,
            cause_of=lambda metric, node, _source: self.causes.get((metric, node), ""),
        )
        self.controller = memory_writer(context, transitions, self.metrics.writes)
        self.latest = None

    def changed(self, name):
        self.memories.changed(name, self.cluster.nodes.objects.get(name))

    async def sync(self):
        found = await self.api.get("/api/v1/nodes")
        for one in found["items"]:
            self.cluster.nodes.put(decode_node(json.dumps(one)))

    async def decide_only(self, **values):
        await self.sync()
        self.values |= values
        for name, value in self.values.items():
            self.store.report(name, Delta({"m": value}, set()), self.now)
        self.latest = decide(
            [self.policy],
            self.cluster.names,
            WithScores(self.store, self.memories, epoch=0.0),
            now=self.now,
            before=self.latest,
            labels_of=lambda name: records(self.cluster.nodes.objects[name]),
            holds=Held(self.memories, epoch=0.0),
        )
        return self.latest.policies[KEY].violations[StrategyName.DONTSCHEDULE]

    async def decide(self, **values):
        found = await self.decide_only(**values)
        await self.write()
        return found

    async def plan(self):
        self.controller.start_over()
        self.controller._rested = 0.0  # compare at once
        assert await self.controller._has_work()

    async def write(self):
        self.controller.start_over()
        self.controller._rested = 0.0
        while await self.controller._has_work():
            node = next(iter(self.controller._queue))
            del self.controller._queue[node]
            await self.write_node(node)
            self.controller.wake(node)

    async def write_node(self, name):
        """Write the annotation of a node as the writer would, also if it is not planned."""
        await self.controller._apply(name, MemoryWrite(name, "violates demo"))

    async def annotation(self, name="a"):
        found = await self.api.get(f"/api/v1/nodes/{name}")
        return found["metadata"].get("annotations", {}).get("plimsoll.io/memory")

    async def score(self, name="a"):
        found = json.loads(await self.annotation(name))["scores"]["ns/demo"]
        return found["score"]

    def writes(self):
        return self.metrics.writes.labels("ok")._value.get()


@pytest.fixture
async def world(api, connect):
    for name in ("a", "b"):
        await api.node(name)
        info = {"status": {"nodeInfo": {"systemUUID": f"machine-{name}"}}}
        await api.merge(f"/api/v1/nodes/{name}/status", info)
    return World(await connect(api.url), api)


async def test_violations_are_written_as_they_begin_and_end_and_at_no_other_time(world):
    await world.decide(a=0.0, b=0.0)
    assert (await world.annotation(), world.writes()) == (None, 0)
    await world.decide(a=1.0)
    found = json.loads(await world.annotation())
    assert found["systemUUID"] == "machine-a"
    assert found["scores"]["ns/demo"]["score"] == 1.0
    assert found["scores"]["ns/demo"]["violated"] is True
    for _ in range(3):
        world.now += HOUR
        await world.decide()
    assert world.writes() == 1
    await world.decide(a=0.0)
    await world.decide()
    assert world.writes() == 2
    assert "violated" not in json.loads(await world.annotation())["scores"]["ns/demo"]
    assert await world.annotation("b") is None
    managers = (await world.api.get("/api/v1/nodes/a"))["metadata"]["managedFields"]
    assert "plimsoll-memory" in {one["manager"] for one in managers}


async def test_restart_counts_nothing_again(world):
    await world.decide(a=1.0, b=0.0)
    for _ in range(3):
        world.start()
        await world.decide()
        assert world.writes() == 0
    assert await world.score() == 1.0


async def test_restart_while_for_runs_again_counts_nothing_again(api, connect, world):
    strategy = {"rules": [make_rule("m Equals 1")], "for": "1h", "clearAfter": "1h"}
    world = World(world.kube, api, dontschedule=strategy)
    await world.decide(a=1.0, b=0.0)
    world.now += HOUR
    assert (await world.decide()).keys() == {"a"}
    assert await world.score() == 1.0
    world.start()
    assert (await world.decide()).keys() == {"a"}  # from the annotation
    world.now += 2 * HOUR
    await world.decide()
    assert await world.score() == 1.0


async def test_write_from_an_old_version_of_the_node_is_refused_and_counts_nothing(world):
    await world.decide(a=0.0, b=0.0)
    stale = world.cluster.nodes.objects["a"]
    await world.decide(a=1.0)
    world.cluster.nodes.put(stale)  # a watch that lags behind
    world.now += HOUR
    await world.write_node("a")
    assert world.metrics.writes.labels("error")._value.get() == 1
    assert await world.score() == 1.0


async def test_score_is_a_metric_that_decays_and_is_zero_on_nodes_that_never_failed(world):
    await world.decide(a=1.0, b=0.0)
    await world.decide(a=0.0)
    nodes = world.cluster.names
    column = world.memories.column("violation_score_ns_demo", nodes, BEGIN + 30 * 86_400)
    assert column.usable.all()
    assert column.values.tolist() == [0.5, 0.0]
    other = world.memories.column("violation_score_ns_other", nodes, BEGIN)
    assert not other.usable.any()
    assert "no policy ns/other with the annotation plimsoll.io/memory" in other.fault


async def test_flapping_node_stays_in_violation_until_its_score_has_decayed(world):
    report = MemoryReport(
        world.memories, world.metrics.flapping_nodes, lambda: 2, lambda: world.now
    )
    for _ in range(4):
        world.now += 60
        await world.decide(a=1.0, b=0.0)
        world.now += 60
        found = await world.decide(a=0.0)
    assert found == {"a": "violating demo: m Equals 1"}  # although no rule matches
    state = world.latest.policies[KEY].states[StrategyName.DONTSCHEDULE]
    assert state.kept.names == ("a",)
    writes = world.writes()
    (condition,) = report.part(world.latest.policies[KEY]).conditions
    assert (condition.type, condition.status) == ("NodesFlapping", "True")
    assert condition.message.startswith("1 of 2 nodes (a) stay in violation")
    page = report.policy(world.latest.policies[KEY]).memory
    assert [(row.node, row.flapping) for row in page.nodes] == [("a", True)]
    for _ in range(20):
        world.now += 60
        await world.decide(a=1.0)
        await world.decide(a=0.0)
    assert world.writes() == writes
    world.start()
    assert (await world.decide()).keys() == {"a"}  # also after a restart
    world.now += 13 * 86_400  # 4 decays to 3 in 12.5 days
    assert not await world.decide()
    assert world.writes() == 1


async def test_devices_of_causes_are_counted_shown_and_survive_a_restart(world):
    report = MemoryReport(
        world.memories, world.metrics.flapping_nodes, lambda: 2, lambda: world.now
    )
    for gpu in ("GPU-1", "GPU-1", "GPU-2"):  # replaced after its second failure
        world.causes["m", "a"] = f"gpu: UUID={gpu}, pci_bus_id=0000:3b:00"
        await world.decide(a=1.0, b=0.0)
        world.start()
        await world.decide()
        await world.decide(a=0.0)
    written = report.written(world.cluster.nodes.objects["a"]).memory["ns/demo"]
    shown = [(one.device, one.score) for one in written.devices]
    assert (written.score, shown) == (3.0, [("UUID=GPU-1", 2.0), ("UUID=GPU-2", 1.0)])
    report = MemoryReport(
        world.memories, world.metrics.flapping_nodes, lambda: 2, lambda: world.now
    )
    (row,) = report.policy(world.latest.policies[KEY]).memory.nodes
    assert row.devices == written.devices
    world.causes.clear()
    await world.decide(b=1.0)
    assert "devices" not in json.loads(await world.annotation("b"))["scores"]["ns/demo"]


async def test_device_of_a_rule_on_peers_is_that_of_its_base(api, world):
    nodes = [f"n{number}" for number in range(12)]
    for name in nodes:
        await api.node(name)
    world = World(world.kube, api, dontschedule=[make_rule("m:peer_deviation GreaterThan 6")])
    world.causes["m", "n3"] = "serial=NVME-1"
    values = dict.fromkeys(nodes, 1.0)
    assert (await world.decide(**values | {"n3": 9.0})).keys() == {"n3"}
    found = json.loads(await world.annotation("n3"))["scores"]["ns/demo"]
    assert [*found["devices"]] == ["serial=NVME-1"]


async def test_gauge_status_and_page_name_the_nodes_that_the_decision_holds(world):
    report = MemoryReport(
        world.memories, world.metrics.flapping_nodes, lambda: 2, lambda: world.now
    )
    for _ in range(4):
        await world.decide(a=1.0, b=0.0)
        await world.decide(a=0.0)
    world.now += 13 * 86_400  # the score has decayed, but the node is held until the next decision
    for held in (["a"], []):
        decision = world.latest.policies[KEY]
        assert [*decision.violations[StrategyName.DONTSCHEDULE]] == held
        [*report.show(Decided(world.latest, world.now))]
        (family,) = world.metrics.flapping_nodes.collect()
        assert [sample.value for sample in family.samples] == [len(held)]
        (condition,) = report.part(decision).conditions
        assert condition.status == str(bool(held))
        rows = report.policy(decision).memory.nodes
        assert [row.node for row in rows if row.flapping] == held
        assert report.listed(decision) == FlappingFields(held)
        score = report.written(world.cluster.nodes.objects["a"]).memory["ns/demo"]
        assert score.flapping is bool(held)
        await world.decide()


async def test_half_lives_follow_the_policies_and_are_read_once_in_between(world):
    read = []

    class Policies(dict):
        def values(self):
            read.append(self)
            return super().values()

    world.cluster.policies.objects = Policies(world.cluster.policies.objects)
    await world.decide(a=1.0, b=1.0)
    await world.decide(a=0.0, b=1.0)
    assert len(read) <= 1
    assert world.memories.half_lives == {KEY: 30 * 86_400.0}
    world.cluster.policies.drop(world.policy)
    assert world.memories.half_lives == {}


async def test_forgotten_and_another_machine_start_anew(world):
    await world.decide(a=1.0, b=1.0)
    await world.decide(a=0.0, b=0.0)
    await world.api.merge(
        "/api/v1/nodes/a", {"metadata": {"annotations": {"plimsoll.io/memory": None}}}
    )
    await world.api.merge(
        "/api/v1/nodes/b/status", {"status": {"nodeInfo": {"systemUUID": "another"}}}
    )
    await world.decide()
    assert world.memories.of_policy(KEY) == {}
    world.now += HOUR
    await world.decide(a=1.0, b=1.0)
    assert (await world.score("a"), await world.score("b")) == (1.0, 1.0)
    assert json.loads(await world.annotation("b"))["systemUUID"] == "another"


async def test_clean_removes_the_annotation(world):
    await world.decide(a=1.0, b=0.0)
    await world.sync()
    (removal,) = removals(None, world.cluster.nodes.objects["a"])
    assert [*removals(None, world.cluster.nodes.objects["b"])] == []
    await world.kube.patch_node(removal.write.node, removal.write.operations)
    assert await world.annotation() is None
    assert remembered(world.cluster.nodes.objects["b"]).scores == {}


async def test_observed_policy_writes_nothing(world):
    observed = parse.parse(
        make_tas("demo", dontschedule=[make_rule("m Equals 1")]),
        observe=True,
        vocabulary=VOCABULARY,
    )
    world.policy = observed
    world.start()
    await world.decide(a=1.0, b=1.0)
    assert (await world.annotation(), world.writes()) == (None, 0)


@pytest.mark.parametrize("edit", ["deleted", "observed", "without the annotation"])
async def test_policy_edited_before_its_verdicts_are_written_counts_nothing(world, edit):
    """The verdicts are of the last decision, the half-lives of the policies as they are now."""
    await world.decide(a=0.0, b=0.0)
    await world.decide_only(a=1.0, b=1.0)
    await world.plan()
    changes = {
        "observed": {"observed_by": "--observe"},
        "without the annotation": {"actions": LABELS_ONLY},
    }
    if edit == "deleted":
        world.cluster.policies.drop(world.policy)
    else:
        world.cluster.policies.put(replace(world.policy, **changes[edit]))
    for node in ("a", "b"):
        await world.write_node(node)
    assert (await world.annotation("a"), await world.annotation("b")) == (None, None)


async def test_node_deleted_before_its_score_is_written_costs_no_other_node_its_score(world):
    await world.decide(a=0.0, b=0.0)
    await world.decide_only(a=1.0, b=1.0)
    await world.plan()
    world.cluster.nodes.drop(world.cluster.nodes.objects["a"])
    for node in ("a", "b"):
        await world.write_node(node)
    assert (await world.annotation("a"), await world.score("b")) == (None, 1.0)


def edited(world, **annotations):
    """Give the policy annotations, by names without their prefix."""
    made = make_tas("demo", dontschedule=[make_rule("m Equals 1")])
    named = {f"plimsoll.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    made["metadata"]["annotations"] = {"plimsoll.io/memory": "30d"} | named
    world.policy = parse.parse(made, vocabulary=VOCABULARY)
    world.cluster.policies.put(world.policy)


async def test_scores_of_an_observed_policy_are_kept_and_decay_and_no_node_is_written(world):
    await world.decide(a=1.0, b=0.0)
    text = await world.annotation()
    edited(world, enforcement="observe")
    for values in ({}, {"a": 0.0, "b": 1.0}, {"a": 1.0}, {"a": 0.0}):
        world.now += HOUR
        await world.decide(**values)
    assert (await world.annotation(), await world.annotation("b")) == (text, None)
    assert world.writes() == 1
    world.now = BEGIN + 30 * 86_400
    column = world.memories.column("violation_score_ns_demo", world.cluster.names, world.now)
    assert column.values.tolist() == [0.5, 0.0]
    edited(world)
    await world.decide(b=1.0)
    assert (await world.score("a"), await world.score("b")) == (1.0, 1.0)
    assert "violated" not in json.loads(await world.annotation())["scores"]["ns/demo"]


async def test_observed_policy_holds_no_flapping_node_but_its_score_counts_when_enforced_again(
    world,
):
    report = MemoryReport(
        world.memories, world.metrics.flapping_nodes, lambda: 2, lambda: world.now
    )
    for _ in range(4):
        await world.decide(a=1.0, b=0.0)
        await world.decide(a=0.0)
    for annotations in ({}, {"memory_observed": "count"}):
        edited(world, enforcement="observe", **annotations)
        assert not await world.decide()
        (condition,) = report.part(world.latest.policies[KEY]).conditions
        assert (condition.status, condition.reason) == ("False", "Observed")
        assert report.listed(world.latest.policies[KEY]).flapping == []
        if not annotations:
            edited(world)
            assert not await world.decide()
            await world.decide(a=1.0)
            assert (await world.decide(a=0.0)).keys() == {"a"}
            assert await world.score() == 5.0


async def test_observed_policy_counts_violations_with_the_annotation(world):
    edited(world, enforcement="observe", memory_observed="count")
    for _ in range(6):
        await world.decide(a=1.0, b=0.0)
        await world.decide(a=0.0)
    assert await world.score() == 6.0
    assert world.writes() == 12


async def test_stale_violation_of_an_observed_policy_is_not_restored(world):
    await world.decide(a=1.0, b=0.0)
    edited(world, enforcement="observe")
    world.start()
    assert not await world.decide(a=0.0)


async def test_scores_of_a_deleted_policy_are_forgotten_with_the_next_write(world):
    await world.decide(a=1.0, b=0.0)
    world.cluster.policies.drop(world.policy)
    await world.decide(a=0.0)
    await world.write_node("a")
    assert await world.annotation() is None
