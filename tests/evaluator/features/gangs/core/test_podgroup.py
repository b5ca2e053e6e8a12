"""The gang index, maintained incrementally, equals one built from scratch."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.cache.pods import PodCache
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core.labels import decode
from evaluator.features.gangs.core.membership import ADMITTED, GATE
from evaluator.features.gangs.core.podgroup import GangIndex, GangKey, gang_among
from tests.evaluator.features.gangs.fed import fed_index

TRAIN = GangKey("shop", "train")
MARK = {ADMITTED: "2027-01-15T08:00:00.000Z"}


class World:
    def __init__(self) -> None:
        self.inventory = PodCache(clock=lambda: 0.0, wall=lambda: 0.0)
        self.index = fed_index(self.inventory)

    def put(self, name: str, **said: Any) -> PodRecord:
        found = pod(name, **said)
        self.inventory.pods.put(found)
        return found

    def drop(self, name: str) -> None:
        self.inventory.pods.drop(pod(name))

    def names(self, key: GangKey = TRAIN) -> list[str] | None:
        found = self.index.find(key)
        return [member.name for member in found.pods] if found else None


def pod(
    name: str,
    *,
    group: str | None = "train",
    minimum: str = "2",
    gates: Any = (GATE,),
    node: str = "",
    phase: str = "Pending",
    annotations: Any = None,
    native: bool = False,
    restarts: int = 0,
    leaving: bool = False,
    uid: str = "",
) -> PodRecord:
    labels = (
        {"podGroup": group, **({"minAvailable": minimum} if minimum else {})} if group else None
    )
    meta = {"name": name, "namespace": "shop", "uid": uid or f"u-{name}"}
    if leaving:
        meta["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    spec: dict[str, Any] = {"nodeName": node, "schedulingGates": [{"name": x} for x in gates]}
    if native:
        spec["schedulingGroup"] = {"podGroupName": "theirs"}
    body = {
        "metadata": meta | {"labels": labels, "annotations": annotations},
        "spec": spec,
        "status": {"phase": phase, "containerStatuses": [{"restartCount": restarts}]},
    }
    return decode(json.dumps(body).encode())


@pytest.fixture
def world() -> World:
    return World()


def test_gang_consists_of_all_its_pods_by_name(world: World) -> None:
    world.put("b")
    world.put("a", gates=(), node="n")
    world.put("c", phase="Succeeded", gates=())
    world.put("x", group="other")
    world.put("stranger", group=None, gates=())
    assert world.names() == ["a", "b", "c"]
    assert {gang.key for gang in world.index.gangs} == {TRAIN, GangKey("shop", "other")}


def test_gang_ends_with_its_last_pod(world: World) -> None:
    world.put("a")
    world.put("b")
    world.drop("a")
    assert world.names() == ["b"]
    world.drop("b")
    assert world.names() is None
    assert not world.index.gangs


def test_pod_moves_when_its_labels_change(world: World) -> None:
    world.put("a")
    world.put("b")
    world.put("a", group="other")
    assert (world.names(), world.names(GangKey("shop", "other"))) == (["b"], ["a"])


def test_unchanged_gang_is_the_same_object(world: World) -> None:
    world.put("a")
    world.put("x", group="other")
    before, version = world.index.find(TRAIN), world.index.version
    world.put("y", group="other")
    assert world.index.find(TRAIN) is before
    assert world.index.version > version


def test_kubelet_status_of_a_running_pod_changes_nothing(world: World) -> None:
    world.put("a", gates=(), node="n", phase="Running")
    before, version = world.index.find(TRAIN), world.index.version
    world.put("a", gates=(), node="n", phase="Running", restarts=7)
    world.put("stranger", group=None, gates=(), node="n")
    assert (world.index.find(TRAIN), world.index.version) == (before, version)


def test_terminating_pod_does_not_count(world: World) -> None:
    world.put("a")
    world.put("b")
    assert world.index.by_key[TRAIN].complete
    world.put("b", leaving=True)
    assert not world.index.by_key[TRAIN].complete


def test_pod_of_the_same_name_and_another_uid_is_another_pod(world: World) -> None:
    world.put("a", uid="1")
    world.put("a", uid="2")
    found = world.index.find(TRAIN)
    assert found is not None
    assert [member.uid for member in found.pods] == ["2"]


def test_gated_pod_without_a_gang_is_its_own_gang_until_bound(world: World) -> None:
    key = GangKey("shop", "solo", alone=True)
    world.put("solo", group=None)
    assert world.names(key) == ["solo"]
    world.put("solo", group=None, gates=(), annotations=MARK)
    assert world.names(key) == ["solo"], "capacity is reserved for it"
    world.put("solo", group=None, gates=(), annotations=MARK, node="n")
    assert world.names(key) is None


def test_pod_without_min_available_counts_for_its_group(
    world: World,
) -> None:
    world.put("a", minimum="3")
    world.put("worker-1", minimum="", gates=(), node="n")
    done = world.put("worker-2", minimum="1")
    found = world.index.find(TRAIN)
    assert found is not None
    assert (world.names(), found.existing, found.minimum, found.complete) == (["a"], 3, 3, True)
    assert any(text.startswith("2 of its pods name no minAvailable") for text in found.problems)
    assert world.names(GangKey("shop", "worker-2", alone=True)) == ["worker-2"]
    world.inventory.pods.drop(done)
    found = world.index.find(TRAIN)
    assert found is not None
    assert not found.complete
    world.drop("a")
    assert not world.index.gangs, "a pod without minAvailable makes no gang"


def test_gang_among_pods_equals_the_indexed_gang(world: World) -> None:
    pods = [world.put("b"), world.put("a"), world.put("w", minimum="", gates=())]
    pods += [world.put("x", group="other"), world.put("s", group=None)]
    assert gang_among(TRAIN, pods) == world.index.find(TRAIN)


def test_gated_native_pod_is_listed_separately(
    world: World,
) -> None:
    held = world.put("a", native=True)
    world.put("b", native=True, gates=())
    assert world.names() is None
    assert world.index.native == {held.key: held}
    world.put("a", native=True, gates=())
    assert not world.index.native


def test_pods_known_before_the_index_are_indexed(world: World) -> None:
    world.put("a")
    world.put("n", native=True)
    anew = fed_index(world.inventory, count_all=True)
    found = anew.find(TRAIN)
    assert found is not None
    assert found.count_all
    assert anew.native.keys() == world.index.native.keys()


SAID = st.fixed_dictionaries(
    {
        "group": st.sampled_from(["train", "other", None]),
        "minimum": st.sampled_from(["2", "1", ""]),
        "gates": st.sampled_from([(), (GATE,), ("other", GATE), ("other",)]),
        "node": st.sampled_from(["", "n"]),
        "phase": st.sampled_from(["Pending", "Failed"]),
        "annotations": st.sampled_from([None, MARK]),
        "native": st.booleans(),
        "leaving": st.booleans(),
        "uid": st.sampled_from(["1", "2"]),
        "restarts": st.sampled_from([0, 1]),
    }
)
EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.just("look"), SAID)), max_size=30
)


def test_incremental_index_equals_index_from_scratch(soak: bool) -> None:
    @settings(max_examples=3000 if soak else 30, deadline=None)
    @given(EVENTS)
    def check(events: Any) -> None:
        world = World()
        for name, said in [*events, ("a", "look")]:
            if said is None:
                world.drop(name)
            elif said != "look":
                world.put(name, **said)
            else:
                anew = fed_index(world.inventory)
                assert _all(world.index) == _all(anew)
                assert world.index.native.keys() == anew.native.keys()
                assert world.index.held == sum(map(_is_held, world.inventory.pods.objects.values()))

    check()


def _is_held(pod: PodRecord) -> bool:
    return pod.extra is not None and pod.extra.gated


def _all(index: GangIndex) -> Any:
    return {one.key: (_matters(one.pods), _matters(one.beside)) for one in index.gangs}


def _matters(pods: Any) -> Any:
    return [(one.name, one.uid, one.node, one.phase, one.leaving, one.extra) for one in pods]
