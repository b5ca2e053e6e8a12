"""The snapshot that scorers receive: built from watches and agents, within its age limit."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.cache.cluster import ClusterCache, decode_node
from evaluator.core.cache.pods import PodCache
from evaluator.core.model import resources
from evaluator.core.model.node import Node
from evaluator.core.model.pod_record import decode
from evaluator.core.model.resources import Resource
from evaluator.core.readings.store import Store
from evaluator.features.scorers.plugin import ClusterSnapshot
from evaluator.features.scorers.rewards import Rewards
from evaluator.features.scorers.snapshotter import Snapshotter
from wire.codec import Delta

GI = 2**30
STALE = 30.0


class World:
    """A snapshotter with its inputs and one clock."""

    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.cluster = ClusterCache()
        self.inventory = PodCache(clock=lambda: self.now, wall=lambda: self.now)
        self.store = Store(stale_after=STALE, started=-1000.0)
        self.store.subscribe(resources.USAGE_METRICS)
        self.snapshotter = Snapshotter(
            self.cluster, self.inventory, self.store, clock=lambda: self.now, **options
        )
        for cache in (self.cluster, self.inventory):
            cache.signals.connect(self.snapshotter.reactions())

    def begin(self, *nodes: Node) -> None:
        self.cluster.nodes.replace(list(nodes))
        self.inventory.pods.replace([])

    def report(self, node: str, **values: float) -> None:
        names = {getattr(resources, name.upper()): value for name, value in values.items()}
        self.store.report(node, Delta(values=names), self.now)

    def later(self, seconds: float = 0.125) -> ClusterSnapshot:
        self.now += seconds
        return self.snapshotter.view()


@pytest.fixture
def world() -> World:
    return World()


def node(name: str, cpu: Any = "4", memory: Any = "8Gi", **annotations: str) -> Node:
    told = {key.replace("_", "-"): text for key, text in annotations.items()}
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    body = {
        "metadata": {"name": name, "annotations": told},
        "status": {"allocatable": {k: v for k, v in allocatable.items() if v is not None}},
    }
    return decode_node(json.dumps(body).encode())


def pod(name: str, on: str = "", cpu: str = "1", bound: float | None = 0.0, **status: Any) -> Any:
    condition = {"type": "PodScheduled", "status": "True"}
    if bound is not None:
        condition["lastTransitionTime"] = (
            f"1970-01-01T00:{int(bound) // 60:02}:{int(bound) % 60:02}Z"
        )
    body = {
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {
            "nodeName": on,
            "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running", "conditions": [condition], **status},
    }
    return decode(json.dumps(body).encode())


def told(values: Any) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def test_snapshot_has_allocatable_and_requests(world: World) -> None:
    world.begin(node("b", cpu="500m"), node("a"))
    world.inventory.pods.replace([pod("old", "a"), pod("new", "a", cpu="300m", bound=990)])
    view = world.snapshotter.view()
    assert view.nodes == ("a", "b")
    assert told(view.allocatable[Resource.CPU]) == [4000, 500]
    assert told(view.allocatable[Resource.MEMORY]) == [8 * GI, 8 * GI]
    assert told(view.requested[Resource.CPU]) == [1300, 0]
    assert told(view.requested[Resource.PODS]) == [2, 0]
    assert told(view.recently_bound[Resource.CPU]) == [300, 0]
    assert told(world.later(resources.USAGE_WINDOW).recently_bound[Resource.CPU]) == [0, 0]


def test_free_capacity_is_allocatable_less_use(world: World) -> None:
    world.begin(node("a"), node("b"))
    world.report("a", cpu_mean=1.5, cpu_deviation=0.25, memory_mean=2 * GI, memory_deviation=GI)
    world.report("b", cpu_mean=4.5, congestion=0.5)
    view = world.snapshotter.view()
    cpu, memory = view.usage[Resource.CPU], view.usage[Resource.MEMORY]
    assert told(cpu.free) == [2500, -500]
    assert told(cpu.deviation) == [250, None]
    assert told(memory.free) == [6 * GI, None]
    assert told(memory.deviation) == [GI, None]
    assert told(cpu.forecast) == [None, None]
    assert view.congestion is not None
    assert told(view.congestion) == [None, 0.5]
    assert told(view.readings[resources.CPU_MEAN]) == [1.5, 4.5]


def test_stale_reading_is_missing(world: World) -> None:
    world.begin(node("a"))
    world.report("a", cpu_mean=1.0, congestion=0.5)
    assert told(world.later(STALE).usage[Resource.CPU].free) == [3000]
    view = world.later(0.2)
    assert told(view.usage[Resource.CPU].free) == [None]
    assert view.congestion is not None
    assert told(view.congestion) == [None]


@pytest.mark.parametrize("value", [-1.0, math.inf, -math.inf, math.nan])
def test_impossible_use_is_missing(world: World, value: float) -> None:
    world.begin(node("a"))
    world.report("a", cpu_mean=value, cpu_deviation=value, memory_mean=GI, memory_deviation=value)
    view = world.snapshotter.view()
    assert told(view.usage[Resource.CPU].free) == [None]
    assert told(view.usage[Resource.MEMORY].deviation) == [None]


def test_annotations_replace_missing_agents_and_are_never_mixed_in(world: World) -> None:
    said = {"mean_free_cpu": "2500", "std_free_cpu": "400", "forcasted_free_cpu": "2000"}
    world.begin(node("a", **said), node("b", **said), node("c", mean_free_cpu="many"))
    world.report("a", cpu_mean=1.0)
    view = world.snapshotter.view()
    usage = view.usage[Resource.CPU]
    assert told(usage.free) == [3000, 2500, None]
    assert told(usage.deviation) == [None, 400, None]
    assert told(usage.forecast) == [None, 2000, None]
    assert told(view.annotations["mean-free-cpu"]) == [2500, 2500, None]


def test_unchanged_snapshot_is_one_object(world: World) -> None:
    world.begin(node("a"))
    world.report("a", cpu_mean=1.0)
    view = world.snapshotter.view()
    assert world.later() is view
    world.report("a", cpu_mean=1.0)
    assert world.later() is view
    world.cluster.nodes.put(node("a", note="other"))
    assert world.later() is view


def test_pod_changes_show_at_once_and_readings_at_the_next_snapshot(world: World) -> None:
    world.begin(node("a"))
    world.report("a", cpu_mean=1.0)
    first = world.snapshotter.view()
    world.report("a", cpu_mean=2.0)
    world.inventory.pods.put(pod("web", "a"))
    second = world.snapshotter.view()
    assert told(second.requested[Resource.CPU]) == [1000]
    assert told(first.requested[Resource.CPU]) == [0]
    assert second.usage is first.usage
    assert told(world.later().usage[Resource.CPU].free) == [2000]


def test_snapshot_shares_unchanged_parts_with_the_last(world: World) -> None:
    world.begin(node("a"), node("b"))
    first = world.snapshotter.view()
    world.inventory.pods.put(pod("web", "b", bound=0))
    second = world.snapshotter.view()
    assert second is not first
    for name in ("nodes", "allocatable", "annotations", "recently_bound", "readings", "usage"):
        assert getattr(second, name) is getattr(first, name), name
    assert second.requested[Resource.GPU] is first.requested[Resource.GPU]
    for row in second.requested.values():
        assert not row.flags.writeable


def test_added_and_removed_nodes_keep_their_own_values(world: World) -> None:
    world.begin(node("b"))
    world.inventory.pods.replace([pod("one", "a"), pod("two", "b", cpu="2")])
    assert told(world.snapshotter.view().requested[Resource.CPU]) == [2000]
    world.cluster.nodes.put(node("a", cpu="1"))
    view = world.snapshotter.view()
    assert view.nodes == ("a", "b")
    assert told(view.requested[Resource.CPU]) == [1000, 2000]
    assert told(view.allocatable[Resource.CPU]) == [1000, 4000]
    world.cluster.nodes.drop(node("b"))
    view = world.snapshotter.view()
    assert (view.nodes, told(view.requested[Resource.CPU])) == (("a",), [1000])
    world.cluster.nodes.replace([])
    assert world.snapshotter.view().nodes == ()


def test_rewards_are_part_of_the_snapshot() -> None:
    learned = [Rewards()]
    world = World(rewards=lambda: learned[0])
    world.begin(node("a"))
    first = world.snapshotter.view()
    learned[0] = Rewards()
    assert world.snapshotter.view().rewards is learned[0]
    assert first.rewards is not learned[0]


def test_no_snapshot_before_nodes_pods_and_first_reports() -> None:
    world = World()
    world.store.started = world.now
    world.cluster.nodes.replace([node("a")])
    assert world.snapshotter.waiting_for == ["all pods"]
    world.inventory.pods.replace([])
    assert world.snapshotter.waiting_for == ["the nodes' first readings for scorers"]
    assert world.snapshotter.known() is None
    world.store.report("a", Delta(values=dict.fromkeys(resources.USAGE_METRICS, 0.5)), world.now)
    world.now += 0.125
    assert world.snapshotter.waiting_for == []
    assert world.snapshotter.known() is world.snapshotter.view()
    world.cluster.nodes.put(node("late"))  # it joins later, and nothing waits for it
    world.now += 0.125
    assert world.snapshotter.waiting_for == []


def test_scorers_without_metrics_wait_for_no_agent() -> None:
    world = World(metrics=())
    world.store.started = world.now
    world.begin(node("a"))
    assert world.snapshotter.waiting_for == []
    assert world.snapshotter.view().congestion is None
    assert told(world.snapshotter.view().usage[Resource.CPU].free) == [None]
    world.cluster.nodes.replace([])
    assert told(world.snapshotter.view().usage[Resource.CPU].free) == []


def test_metrics_of_every_scorer_are_read() -> None:
    world = World(metrics=("node_load1",))
    world.store.subscribe(["node_load1"])
    world.begin(node("a"), node("b"))
    world.store.report("b", Delta(values={"node_load1": -3.0}), world.now)
    assert told(world.snapshotter.view().readings["node_load1"]) == [None, -3]


NAMES = ("a", "b", "c")
NODES = st.builds(node, st.sampled_from(NAMES), cpu=st.sampled_from(("1", "2", None, "x")))
PODS = st.builds(
    pod,
    st.sampled_from(("one", "two", "three")),
    st.sampled_from(("", *NAMES)),
    cpu=st.sampled_from(("1", "9E")),
    bound=st.sampled_from((None, 0, 990)),
    phase=st.sampled_from(("Running", "Failed")),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("node", "no node")), NODES),
        st.tuples(st.sampled_from(("pod", "no pod")), PODS),
        st.tuples(st.just("report"), st.sampled_from(NAMES)),
        st.tuples(st.just("wait"), st.sampled_from((0.1, STALE + 1, resources.USAGE_WINDOW))),
    ),
    max_size=12,
)


def test_incremental_snapshot_equals_one_from_scratch(soak: bool) -> None:
    @settings(max_examples=2000 if soak else 40, deadline=None)
    @given(STEPS)
    def check(steps: list[tuple[str, Any]]) -> None:
        world = World()
        world.begin()
        for what, value in steps:
            match what:
                case "node":
                    world.cluster.nodes.put(value)
                case "no node":
                    world.cluster.nodes.drop(value)
                case "pod":
                    world.inventory.pods.put(value)
                case "no pod":
                    world.inventory.pods.drop(value)
                case "report":
                    world.report(value, cpu_mean=0.5, memory_mean=GI)
                case _:
                    world.now += value
            world.snapshotter.view()
        anew = Snapshotter(world.cluster, world.inventory, world.store, clock=lambda: world.now)
        assert_alike(world.later(), anew.view())

    check()


def assert_alike(one: ClusterSnapshot, other: ClusterSnapshot) -> None:
    assert one.nodes == other.nodes
    for name in ("allocatable", "requested", "recently_bound", "annotations", "readings"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.keys() == theirs.keys()
        for key, row in mine.items():
            np.testing.assert_array_equal(row, theirs[key], err_msg=f"{name} {key}")
    for resource, usage in one.usage.items():
        np.testing.assert_array_equal(usage.free, other.usage[resource].free)
