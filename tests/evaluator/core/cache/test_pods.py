"""Pod requests per node, maintained incrementally, equal sums from scratch."""

import datetime
import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.cache.pods import NodeUsage, PodCache
from evaluator.core.model.pod_record import PodRecord, decode
from evaluator.core.model.requests import amounts
from evaluator.core.model.resources import NOTHING, Resource
from evaluator.core.signals import NodeUsageChanged, PodChanged, on, on_node

WINDOW = 300.0
EPOCH = 1_800_000_000.0


class World:
    """A pod cache and its clocks with a common start."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.inventory = PodCache(
            clock=lambda: self.now, wall=lambda: EPOCH + self.now, window=WINDOW
        )

    def told(self) -> dict[str, tuple[Any, Any]]:
        """CPU requested on each node, in total and by recently bound pods."""
        self.inventory.age()
        return {
            node: (_cpu(load.requested), _cpu(load.recently_bound))
            for node, load in self.inventory.usage.items()
        }


@pytest.fixture
def world() -> World:
    return World()


def _cpu(vector: Any) -> float:
    return amounts(vector).get(Resource.CPU, 0)


def stamp(at: float) -> str:
    return datetime.datetime.fromtimestamp(EPOCH + at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def raw(name: str = "web", **said: Any) -> Any:
    """The JSON of a pod; `bound`: when the scheduler bound it, by the fake clock."""
    node, phase = said.get("node", ""), said.get("phase", "Running")
    bound = said.get("bound")
    conditions = [
        {"type": "Ready", "status": "True", "lastTransitionTime": stamp(0)},
        {"type": "PodScheduled", "status": "True" if node else "False"}
        | ({"lastTransitionTime": stamp(bound)} if bound is not None else {}),
    ]
    body = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": said.get("uid", f"u-{name}"),
            "labels": said.get("labels"),
            "creationTimestamp": stamp(0),
            **({"deletionTimestamp": stamp(0)} if said.get("leaving") else {}),
        },
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"requests": {"cpu": said.get("cpu", "1")}}}],
        },
        "status": {"phase": phase, "conditions": conditions, **said.get("status", {})},
    }
    return json.dumps(body).encode()


def pod(name: str = "web", **said: Any) -> PodRecord:
    return decode(raw(name, **said))


def test_only_bound_unfinished_pods_use_resources(world: World) -> None:
    world.inventory.pods.replace(
        [
            pod("runs", node="a", bound=0),
            pod("waits", phase="Pending"),
            pod("starts", node="a", phase="Pending", bound=0, cpu="20m"),
            pod("done", node="a", phase="Succeeded", bound=0),
            pod("broken", node="b", phase="Failed", bound=0),
            pod("leaves", node="a", bound=0, leaving=True, cpu="300m"),
            pod("lost", node="b", phase="Unknown", bound=0, cpu="7"),
        ]
    )
    assert world.told() == {"a": (1320, 0), "b": (7000, 0)}


def test_newly_bound_pod_counts_at_once_and_is_recently_bound_for_a_window(world: World) -> None:
    pods = world.inventory.pods
    pods.replace([pod(phase="Pending")])
    assert world.told() == {}
    pods.put(pod(phase="Pending", node="a", bound=world.now - 40))  # a clock that differs
    assert world.told() == {"a": (1000, 1000)}
    world.now += WINDOW - 1
    pods.put(
        pod(node="a", bound=world.now - WINDOW - 39)
    )  # a status of a running pod without a change of requests
    assert world.told() == {"a": (1000, 1000)}
    world.now += 1
    assert world.told() == {"a": (1000, 0)}


@pytest.mark.parametrize(
    ("said", "young"),
    [
        ({"bound": 1000 - WINDOW + 1}, 1000),
        ({"bound": 1000 - WINDOW}, 0),
        ({"bound": 2000}, 1000),
        ({}, 1000),
        ({"status": {"startTime": stamp(1000 - WINDOW + 10)}}, 1000),
        ({"status": {"startTime": stamp(0)}}, 0),
        ({"status": {"startTime": "yesterday"}}, 1000),
    ],
)
def test_listed_pod_has_its_recorded_age_or_is_new(world: World, said: Any, young: float) -> None:
    world.inventory.pods.replace([pod(node="a", **said)])
    assert world.told() == {"a": (1000, young)}


def test_previous_and_current_record_are_published(world: World) -> None:
    seen: list[tuple[PodRecord | None, PodRecord | None]] = []
    world.inventory.signals.connect(
        [on(PodChanged, lambda pod: seen.append((pod.before, pod.after)))]
    )
    first, crashed = (
        pod(node="a"),
        pod(node="a", status={"containerStatuses": [{"restartCount": 1}]}),
    )
    world.inventory.pods.replace([first])
    world.inventory.pods.put(pod(node="a"))  # the same again
    world.inventory.pods.put(crashed)
    world.inventory.pods.drop(crashed)
    assert seen == [(None, first), (first, crashed), (crashed, None)]


def test_extended_resources_are_summed_too(world: World) -> None:
    def holder(name: str, asked: str, **said: Any) -> PodRecord:
        body = json.loads(raw(name, node="a", bound=0, **said))
        requests = {"example.com/fpga": asked, "telemetry/scheduling": "1"}
        body["spec"]["containers"] = [{"resources": {"requests": requests}}]
        return decode(json.dumps(body).encode())

    pods, told = world.inventory.pods, list[str]()
    world.inventory.signals.connect([on_node(NodeUsageChanged, told.append)])
    pods.replace([holder("one", "1"), holder("two", "2")])
    assert world.inventory.usage["a"].others == (("example.com/fpga", 3),)
    told.clear()
    pods.put(holder("one", "4"))
    assert world.inventory.usage["a"].others == (("example.com/fpga", 6),)
    assert told
    pods.put(holder("one", "4", phase="Succeeded"))
    assert world.inventory.usage["a"].others == (("example.com/fpga", 2),)
    pods.drop(holder("two", "2"))
    assert "a" not in world.inventory.usage


def test_changed_nodes_are_listed_once_per_change_of_usage(world: World) -> None:
    pods, told, also_told = world.inventory.pods, list[str](), list[str]()
    world.inventory.signals.connect(
        on_node(NodeUsageChanged, react) for react in (told.append, also_told.append)
    )
    pods.replace([pod("one", node="a", bound=0), pod("two", node="b", bound=0)])
    assert set(told) == set(also_told) == {"a", "b"}
    told.clear()
    pods.put(pod("one", node="a", bound=0, status={"containerStatuses": [{"restartCount": 1}]}))
    assert told == []
    pods.put(pod("one", node="a", bound=0, phase="Succeeded"))
    assert told == ["a"]
    assert world.told() == {"b": (1000, 0)}


def test_not_synced_before_all_pods_are_listed(world: World) -> None:
    assert not world.inventory.synced
    world.inventory.pods.replace([])
    assert world.inventory.synced


def state(**said: Any) -> dict[str, Any]:
    return {"waiting": None, "running": None, "terminated": None, **said}


FAILED = {"exitCode": 1, "finishedAt": stamp(50)}


@pytest.mark.parametrize(
    ("containers", "facts"),
    [
        ([], (False, 0, False, None)),
        ([{"ready": True, "restartCount": 0, "state": {"running": {}}}], (True, 0, False, None)),
        (
            [
                {"ready": True, "restartCount": 2, "lastState": {"terminated": FAILED}},
                {"ready": False, "restartCount": 1, "state": {"running": {}}},
            ],
            (False, 3, False, EPOCH + 50),
        ),
        (
            [
                {
                    "restartCount": 4,
                    "state": state(waiting={"reason": "CrashLoopBackOff"}),
                    "lastState": state(terminated=FAILED),
                }
            ],
            (False, 4, True, EPOCH + 50),
        ),
        ([{"state": {"waiting": {"reason": "ContainerCreating"}}}], (False, 0, False, None)),
        ([{"state": {"terminated": {"exitCode": 0}}}], (False, 0, False, None)),
        ([{"state": {"terminated": FAILED}}], (False, 0, True, EPOCH + 50)),
        ([{"state": {"terminated": {"exitCode": 9}}}], (False, 0, True, None)),
    ],
)
def test_container_statuses_are_summarized(containers: Any, facts: Any) -> None:
    found = pod(node="a", status={"containerStatuses": containers})
    assert (found.ready, found.restarts, found.crashing, found.crashed) == facts


def test_invalid_quantity_is_logged_with_the_pod() -> None:
    found = pod(node="a", cpu="lots")
    assert found.problems == (
        "pod shop/web: its request for cpu is not a quantity: 'lots' (write it like 3, 1500m, 2Gi or 1e3)",
    )


NAMES, NODES = ("one", "two", "three"), ("", "a", "b")
PODS = st.builds(
    pod,
    st.sampled_from(NAMES),
    uid=st.sampled_from(("1", "2")),
    node=st.sampled_from(NODES),
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed")),
    cpu=st.sampled_from(("1", "333m", "0", "bad", "9E")),
    bound=st.sampled_from((None, 0, 800, 1100, 5000)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), PODS),
        st.tuples(st.just("drop"), PODS),
        st.tuples(st.just("list"), st.lists(PODS, unique_by=lambda one: one.name)),
        st.tuples(st.just("wait"), st.sampled_from((1.0, 100.0, WINDOW))),
    ),
    max_size=12,
)


def test_incremental_sums_equal_sums_from_scratch(soak: bool) -> None:
    @settings(max_examples=3000 if soak else 50, deadline=None)
    @given(STEPS)
    def check(steps: list[tuple[str, Any]]) -> None:
        world, expected = World(), ReferenceSums()
        for what, value in steps:
            inventory = world.inventory
            if what == "wait":
                world.now += value
            elif what == "list":
                inventory.pods.replace(value)
                expected.replace(value, world.now)
            else:
                getattr(inventory.pods, what)(value)
                getattr(expected, what)(value, world.now)
            inventory.age()
            assert dict(inventory.usage) == expected.loads(world.now)

    check()


class ReferenceSums:
    """The reference: every pod with its binding time, summed from scratch."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[PodRecord, float]] = {}

    def replace(self, pods: list[PodRecord], now: float) -> None:
        for gone in self.pods.keys() - {one.name for one in pods}:
            del self.pods[gone]
        for one in pods:
            self.put(one, now)

    def drop(self, one: PodRecord, now: float) -> None:
        self.pods.pop(one.name, None)

    def put(self, one: PodRecord, now: float) -> None:
        before, since = self.pods.get(one.name, (None, 0.0))
        if before and _place(before) == _place(one):
            at = since
        elif (before and before.uid == one.uid and not before.node) or one.bound is None:
            at = now
        else:
            at = min(now, one.bound - EPOCH)
        self.pods[one.name] = (one, at)

    def loads(self, now: float) -> dict[str, NodeUsage]:
        found: dict[str, NodeUsage] = defaultdict(NodeUsage)
        for one, at in self.pods.values():
            if one.holds:
                load = found[one.node]
                load.pods += 1
                load.requested = _add(load.requested, one.requests)
                load.recently_bound = _add(
                    load.recently_bound, one.requests if now - at < WINDOW else NOTHING
                )
        return dict(found)


def _place(one: PodRecord) -> Any:
    return one.uid, one.node, one.holds, one.requests


def _add(one: Any, other: Any) -> Any:
    return tuple(a + b for a, b in zip(one, other, strict=True))
