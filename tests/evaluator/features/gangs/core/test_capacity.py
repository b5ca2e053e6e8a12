"""Capacity of nodes, maintained incrementally, equals capacity from scratch."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.cache.cluster import ClusterCache, decode_node
from evaluator.core.cache.pods import PodCache
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.model.resources import RESOURCES
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Operator, Policy, Rule, Strategy
from evaluator.core.policy.violations import ViolationReasons, Violations
from evaluator.features.gangs.core.capacity import CapacityTracker
from evaluator.features.gangs.core.labels import decode
from evaluator.features.gangs.core.membership import GATE, shape
from tests.evaluator.features.gangs.fed import fed_tracker

CPU, PODS = RESOURCES.index("cpu"), RESOURCES.index("pods")
COOL = PolicyKey("shop", "cool")
GANG = {"podGroup": "train", "minAvailable": "2"}


class World:
    """A cluster, its pods, and the decisions of policies."""

    def __init__(self) -> None:
        self.cluster = ClusterCache()
        self.inventory = PodCache(clock=lambda: 0.0, wall=lambda: 0.0)
        self.decisions = Decisions()
        self.tracker = self.counted_anew()

    def counted_anew(self) -> CapacityTracker:
        return fed_tracker(self.cluster, self.inventory, lambda: self.decisions)

    def node(self, name: str, **said: Any) -> None:
        self.cluster.nodes.put(node(name, **said))

    def pod(self, name: str, **said: Any) -> PodRecord:
        found = pod(name, **said)
        self.inventory.pods.put(found)
        return found

    def refuses(self, *nodes: str, unreported: Any = (), observed: str = "") -> None:
        decision = Decision(
            Policy(COOL, observed_by=observed),
            {StrategyName.DONTSCHEDULE: dict.fromkeys(nodes, "hot")},
            unreported=frozenset(unreported),
        )
        self.decisions = Decisions(policies={COOL: decision})

    def free(self, resource: str = "cpu") -> dict[str, float]:
        capacity = self.tracker.capacity()
        return dict(
            zip(capacity.nodes, capacity.free[capacity.row_of[resource]].tolist(), strict=True)
        )

    def allowed(self, pod: PodRecord, tracker: CapacityTracker | None = None) -> list[str]:
        capacity, asked = (tracker or self.tracker).capacity(), shape(pod)
        return capacity.nodes.names_at(capacity.allowed(asked.where, asked.policy))


def node(
    name: str,
    *,
    ready: bool = True,
    cordoned: bool = False,
    labels: Any = None,
    taints: Any = None,
    **has: Any,
) -> Any:
    has = {"cpu": "4", "memory": "8Gi", "pods": "10"} | has
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": cordoned},
        "status": {
            "allocatable": {key.replace("__", "/"): value for key, value in has.items()},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }
    return decode_node(json.dumps(body).encode())


def pod(
    name: str,
    *,
    node: str = "",
    asks: Any = None,
    labels: Any = None,
    phase: str = "Pending",
    spec: Any = None,
    status: Any = None,
) -> PodRecord:
    gates = [] if node else [{"name": GATE}]
    body = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": labels},
        "spec": {
            "nodeName": node,
            "schedulingGates": gates,
            "containers": [{"resources": {"requests": asks or {"cpu": "1"}}}],
            **(spec or {}),
        },
        "status": {"phase": phase, **(status or {})},
    }
    return decode(json.dumps(body).encode())


@pytest.fixture
def world() -> World:
    world = World()
    for name in "abc":
        world.node(name)
    return world


def test_pod_that_is_resized_down_holds_its_memory_until_the_kubelet_took_it(
    world: World,
) -> None:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}]}
    held = {"name": "c", "resources": {"requests": {"memory": "6Gi"}}}
    world.pod("one", node="a", spec=spec, status={"containerStatuses": [held]})
    assert world.free("memory")["a"] == 2 * 2**30
    held["resources"] = {"requests": {"memory": "1Gi"}}
    world.pod("one", node="a", spec=spec, status={"containerStatuses": [held]})
    assert world.free("memory")["a"] == 7 * 2**30


def test_free_capacity_is_allocatable_less_requests(world: World) -> None:
    assert world.free() == {"a": 4000, "b": 4000, "c": 4000}
    world.pod("one", node="a")
    waits = world.pod("two")
    assert world.free() == {"a": 3000, "b": 4000, "c": 4000}
    assert world.free("pods") == {"a": 9, "b": 10, "c": 10}
    world.pod("two", node="b")
    world.pod("one", node="a", phase="Succeeded")
    assert world.free() == {"a": 4000, "b": 3000, "c": 4000}
    world.inventory.pods.drop(waits)
    world.node("c", cpu="2500m")
    assert world.free() == {"a": 4000, "b": 4000, "c": 2500}
    assert world.tracker.capacity().whole[CPU].tolist() == [4000, 4000, 2500]


def test_nodes_are_added_and_removed(world: World) -> None:
    world.pod("one", node="b")
    world.pod("early", node="bb")
    assert world.free() == {"a": 4000, "b": 3000, "c": 4000}
    world.node("bb")
    world.cluster.nodes.drop(node("a"))
    assert world.free() == {"b": 3000, "bb": 3000, "c": 4000}


def test_node_without_allocatable_has_unknown_capacity(world: World) -> None:
    world.cluster.nodes.put(decode_node(b'{"metadata": {"name": "d"}}'))
    world.pod("one", node="d")
    capacity = world.tracker.capacity()
    assert np.isnan(capacity.free[:, 3]).all()
    assert np.isnan(capacity.whole[:, 3]).all()


def test_extended_resources_are_counted_while_a_waiting_pod_requests_them(world: World) -> None:
    world.node("b", amd__gpu="4")
    world.pod("holds", node="b", asks={"amd/gpu": "1"})
    assert world.tracker.capacity().resources == RESOURCES
    waits = world.pod("waits", asks={"amd/gpu": "2", "example.com/fpga": "1"})
    assert world.tracker.capacity().resources == (*RESOURCES, "amd/gpu")
    assert world.free("amd/gpu") == {"a": 0, "b": 3, "c": 0}
    world.node("a", **{"example.com/fpga": "3"})
    assert world.tracker.capacity().resources == (*RESOURCES, "amd/gpu", "example.com/fpga")
    assert world.free("example.com/fpga") == {"a": 3, "b": 0, "c": 0}
    world.cluster.nodes.drop(node("a"))
    assert world.tracker.capacity().resources == (*RESOURCES, "amd/gpu")
    world.node("a")
    world.pod("also", asks={"amd/gpu": "2"})
    world.inventory.pods.drop(waits)
    assert world.tracker.capacity().resources == (*RESOURCES, "amd/gpu")
    world.node("b", amd__gpu="8")
    assert world.free("amd/gpu") == {"a": 0, "b": 7, "c": 0}
    world.pod("also", node="b", asks={"amd/gpu": "2"}, labels=GANG)
    assert world.tracker.capacity().resources == RESOURCES


def test_resource_without_a_node_takes_no_memory(world: World) -> None:
    world.pod("hostile", asks={f"example.com/r{number}": "1" for number in range(5000)})
    assert world.tracker.capacity().resources == RESOURCES


def test_selectors_and_taints_limit_the_nodes(world: World) -> None:
    world.node("a", labels={"disk": "ssd"})
    world.node("b", taints=[{"key": "mine", "effect": "NoSchedule"}])
    world.node("d", ready=False)
    anywhere = world.pod("any")
    ssd = world.pod("ssd", spec={"nodeSelector": {"disk": "ssd"}})
    tolerant = world.pod("all", spec={"tolerations": [{"key": "mine", "operator": "Exists"}]})
    assert world.allowed(anywhere) == ["a", "c"]
    assert world.allowed(ssd) == ["a"]
    assert world.allowed(tolerant) == ["a", "b", "c"]
    world.node("c", labels={"disk": "ssd"})
    world.node("d")
    assert world.allowed(anywhere) == ["a", "c", "d"]
    assert world.allowed(ssd) == ["a", "c"]
    assert world.allowed(pod("unheard", spec={"nodeSelector": {"disk": "ssd"}})) == ["a", "c"]


@pytest.mark.parametrize("beside", [{}, {"podAntiAffinity": None}, {"podAntiAffinity": {}}])
def test_node_affinity_limits_the_nodes(world: World, beside: Any) -> None:
    world.node("a", labels={"disk": "ssd"})
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = world.pod("ssd", spec={"affinity": {"nodeAffinity": required, **beside}})
    assert world.allowed(pod) == ["a"]


def test_cordoned_or_not_ready_node_is_eligible_with_a_toleration(world: World) -> None:
    world.node("b", cordoned=True)
    world.node("c", ready=False)
    tolerant = [
        world.pod(name, spec={"tolerations": [{"key": key, "operator": "Exists"}]})
        for name, key in (
            ("one", "node.kubernetes.io/unschedulable"),
            ("two", "node.kubernetes.io/not-ready"),
        )
    ]
    assert world.allowed(world.pod("any")) == ["a"]
    assert [world.allowed(found) for found in tolerant] == [["a", "b"], ["a", "c"]]


def test_policy_limits_the_nodes(world: World) -> None:
    follows = world.pod("one", labels={"telemetry-policy": "cool"})
    other = world.pod("two")
    assert world.allowed(follows) == ["a", "b", "c"], "a missing policy rejects no node"
    world.refuses("b", "gone")
    assert world.allowed(follows) == ["a", "c"]
    world.refuses("a", unreported=["c"])
    assert world.allowed(follows) == ["b"]
    assert world.allowed(other) == ["a", "b", "c"]
    world.refuses("a", unreported=["c"], observed="--observe")
    assert world.allowed(follows) == ["a", "b", "c"], (
        "a policy that is only observed rejects no node"
    )
    world.refuses()
    assert world.allowed(follows) == ["a", "b", "c"]


def test_policy_decision_of_other_nodes_is_matched_by_name(world: World) -> None:
    follows = world.pod("one", labels={"telemetry-policy": "cool"})
    strategy = Strategy((Rule("temperature", Operator.GREATER_THAN, 80.0),))
    nodes, at = NodeIndex(("a", "b", "bb", "c")), np.array([True, False, True, False])
    none = np.zeros((4, 1), dtype=bool)
    found = Violations(at, at.reshape(4, 1), none, none)
    reasons_of = ViolationReasons("cool", strategy, nodes, found)
    world.decisions = Decisions(
        policies={COOL: Decision(Policy(COOL), {StrategyName.DONTSCHEDULE: reasons_of})}
    )
    assert world.allowed(follows) == ["b", "c"]
    world.node("bb")
    assert world.allowed(follows) == ["b", "c"]


def test_earlier_snapshot_keeps_its_nodes(world: World) -> None:
    asked = shape(world.pod("one"))
    before = world.tracker.capacity()
    world.cluster.nodes.drop(node("a"))
    world.node("d")
    now = world.tracker.capacity()
    assert now.nodes.names_at(now.allowed(asked.where, None)) == ["b", "c", "d"]
    assert before.nodes.names_at(before.allowed(asked.where, None)) == ["b", "c"]


def test_results_are_cached_and_dropped_with_their_last_pod(
    world: World,
) -> None:
    follows = world.pod("one", labels={"telemetry-policy": "cool"})
    world.refuses("b")
    capacity, asked = world.tracker.capacity(), shape(follows)
    assert world.tracker.capacity() is capacity
    assert capacity.allowed(asked.where, asked.policy) is capacity.allowed(
        asked.where, asked.policy
    )
    assert world.cluster.feasible_nodes._by_constraints
    world.inventory.pods.drop(follows)
    assert not world.cluster.feasible_nodes._by_constraints


def test_objects_known_before_the_tracker_count_too(world: World) -> None:
    world.pod("one", node="b")
    ssd = world.pod("ssd", asks={"amd/gpu": "1"}, spec={"nodeSelector": {"disk": "ssd"}})
    world.node("c", labels={"disk": "ssd"}, amd__gpu="1")
    assert_alike(world)
    assert world.allowed(ssd, world.counted_anew()) == ["c"]


def assert_alike(world: World) -> None:
    kept, anew = world.tracker.capacity(), world.counted_anew().capacity()
    assert (kept.nodes, kept.resources) == (anew.nodes, anew.resources)
    np.testing.assert_array_equal(kept.free, anew.free)
    np.testing.assert_array_equal(kept.whole, anew.whole)
    for found in world.inventory.pods.objects.values():
        asked = shape(found)
        kept_mask = kept.allowed(asked.where, asked.policy)
        assert kept_mask.tolist() == anew.allowed(asked.where, asked.policy).tolist()


NAMES = st.sampled_from(["a", "b", "c", "d"])
ASKS = st.sampled_from([{"cpu": "1"}, {"cpu": "300m", "amd/gpu": "1"}, {"hugepages-2Mi": "4Mi"}])
SPECS = st.sampled_from(
    [{}, {"nodeSelector": {"disk": "ssd"}}, {"tolerations": [{"operator": "Exists"}]}]
)
NODES = st.fixed_dictionaries(
    {
        "ready": st.booleans(),
        "labels": st.sampled_from([None, {"disk": "ssd"}]),
        "taints": st.sampled_from([None, [{"key": "x", "effect": "NoExecute"}]]),
        "amd__gpu": st.sampled_from(["0", "2"]),
        "memory": st.sampled_from(["1Gi", "junk"]),
    }
)
PODS_SAID = st.fixed_dictionaries(
    {
        "node": st.sampled_from(["", "", "a", "b"]),
        "asks": ASKS,
        "spec": SPECS,
        "phase": st.sampled_from(["Pending", "Running", "Failed"]),
        "labels": st.sampled_from([None, GANG, {"telemetry-policy": "cool"}]),
    }
)
EVENTS = st.one_of(
    st.tuples(st.just("node"), NAMES, NODES),
    st.tuples(st.just("no node"), NAMES, st.none()),
    st.tuples(st.just("pod"), NAMES, PODS_SAID),
    st.tuples(st.just("no pod"), NAMES, st.none()),
    st.tuples(st.just("refuses"), NAMES, st.none()),
    st.tuples(st.just("look"), NAMES, st.none()),
)


def test_incremental_capacity_equals_capacity_from_scratch(soak: bool) -> None:
    @settings(max_examples=3000 if soak else 25, deadline=None)
    @given(st.lists(EVENTS, max_size=25))
    def check(events: Any) -> None:
        world = World()
        for what, name, said in events:
            match what:
                case "node":
                    world.node(name, **said)
                case "no node":
                    world.cluster.nodes.drop(node(name))
                case "pod":
                    world.pod(name, **said)
                case "no pod":
                    world.inventory.pods.drop(pod(name))
                case "refuses":
                    world.refuses(name)
                case _:
                    assert_alike(world)
        assert_alike(world)

    check()
