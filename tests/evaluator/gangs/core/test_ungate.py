"""The patch that lifts a gate, done to pods as a JSON patch is; and which pods a release still comes to."""

import pytest

from evaluator.gangs.core import ungate
from evaluator.gangs.core.podgroup import GangKey
from evaluator.gangs.core.types import GangReason, GangRelease
from evaluator.gangs.core.ungate import due
from evaluator.model import pods
from evaluator.model.gang_membership import ADMITTED, GATE, Owner
from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.writes.patch import json_patch

AT = "2027-01-15T08:00:00.000Z"
KEY = GangKey("default", "train")


def pod(*names, annotations=None, **meta):
    meta = {"name": "a", "uid": "u", "resourceVersion": "7", **meta}
    meta |= {} if annotations is None else {"annotations": annotations}
    return {"metadata": meta, "spec": {"schedulingGates": [{"name": name} for name in names]}}


def patch(known, at=AT):
    meta, spec = known["metadata"], known["spec"]
    return ungate.ungate_patch(
        ungate.GatedPod(
            ungate.GatedPodMetadata(
                meta["uid"], meta["resourceVersion"], meta.get("labels"), meta.get("annotations")
            ),
            ungate.GatedPodSpec([pods.Gate(gate["name"]) for gate in spec["schedulingGates"]]),
        ),
        at,
    )


def lifted(known, now=None):
    return json_patch(now or known, patch(known))


def test_our_gate_goes_and_those_of_others_stay():
    after = lifted(pod("a.io/x", GATE, "b.io/y"))
    assert after["spec"]["schedulingGates"] == [{"name": "a.io/x"}, {"name": "b.io/y"}]


@pytest.mark.parametrize("annotations", [None, {}, {"team": "ml"}, {ADMITTED: "long ago"}])
def test_it_is_noted_when_and_nothing_else_is_lost(annotations):
    after = lifted(pod(GATE, annotations=annotations))
    assert after["metadata"]["annotations"] == {**(annotations or {}), ADMITTED: AT}


@pytest.mark.parametrize("annotations", [None, {"team": "ml"}])
def test_nothing_is_noted_of_one_that_is_let_through_alone(annotations):
    known = pod(GATE, annotations=annotations)
    after = json_patch(known, patch(known, at=None))
    assert after["spec"]["schedulingGates"] == []
    assert after["metadata"] == known["metadata"]


@pytest.mark.parametrize(
    "now",
    [
        pod(GATE, uid="another"),
        pod(),
        pod("a.io/x"),
        pod("a.io/x", GATE),
        pod(GATE, annotations={"team": "ml"}, resourceVersion="8"),
    ],
    ids=["namesake", "lifted", "lifted, with another left", "moved", "annotated"],
)
def test_nothing_is_done_to_a_pod_that_changed(now):
    with pytest.raises(ApiError):
        lifted(pod(GATE), now)


@pytest.mark.parametrize("labels", [{"podGroup": "other"}, {"podGroup": "train", "x": "y"}, None])
def test_nothing_is_done_to_a_pod_that_may_be_of_another_gang_by_now(labels):
    known = pod(GATE, labels={"podGroup": "train"})
    assert lifted(known)["spec"]["schedulingGates"] == []
    with pytest.raises(ApiError):
        lifted(known, pod(GATE, **({} if labels is None else {"labels": labels})))


def test_an_annotation_that_somebody_adds_beside_others_stays():
    before, now = (pod(GATE, annotations=told) for told in ({"a": "1"}, {"a": "1", "b": "2"}))
    assert lifted(before, now)["metadata"]["annotations"] == {"a": "1", "b": "2", ADMITTED: AT}


@pytest.fixture
def members(a_pod):
    """Pods of a gang of three."""
    return lambda *names, **more: [a_pod(name, "train", 3, **more) for name in names]


@pytest.fixture
def names_due(gangs_of):
    def names(reason, meant, there, **more):
        (gang,) = gangs_of(there, **more)
        return [one.name for one in due(GangRelease(KEY, reason, tuple(meant)), gang)]

    return names


def test_a_gang_goes_as_a_whole_also_what_came_since(members, names_due):
    meant = members("a", "b", "c")
    assert names_due(GangReason.ADMITTED, meant, meant) == ["a", "b", "c"]
    assert names_due(GangReason.ADMITTED, meant, members("b", "c", "d", "e")) == [
        "b",
        "c",
        "d",
        "e",
    ]


def test_they_go_in_the_order_in_which_room_was_looked_for(members, names_due):
    meant = members("c", "a", "b")
    assert names_due(GangReason.ADMITTED, meant, members("a", "aa", "b", "c")) == [
        "c",
        "a",
        "b",
        "aa",
    ]


def test_nobody_goes_of_a_gang_that_lost_its_quorum(members, names_due):
    meant = members("a", "b", "c")
    assert names_due(GangReason.ADMITTED, meant, members("a", "b")) == []
    going = members("c", leaving=True)
    assert names_due(GangReason.ADMITTED, meant, members("a", "b") + going) == []
    assert names_due(GangReason.REPLACEMENT, meant, members("a", "b") + going) == []


def test_nobody_goes_where_gates_of_others_leave_too_few(members, names_due):
    held = members("c", foreign=("a.io/x",))
    assert names_due(GangReason.ADMITTED, members("a", "b", "c"), members("a", "b") + held) == []
    more = members("a", "b", "d")
    assert names_due(GangReason.ADMITTED, members("a", "b", "c"), more + held) == ["a", "b", "d"]


def test_a_replacement_goes_beside_those_that_have_done_their_work(members, names_due):
    there = members("a") + members("b", "c", gated=False, phase="Succeeded")
    assert names_due(GangReason.REPLACEMENT, there[:1], there) == ["a"]
    assert names_due(GangReason.ADMITTED, there[:1], there) == []


def test_a_replacement_goes_alone_and_not_those_of_another_owner(members, names_due):
    other = members("c", "d", owner=Owner("Job", "train", "another"))
    there = members("a") + members("b", node="n") + other
    assert names_due(GangReason.REPLACEMENT, members("a"), [*there]) == ["a"]


def test_of_what_is_overdue_just_those_go_that_were_meant(members, names_due):
    there = members("a", "b", foreign=("a.io/x",))
    assert names_due(GangReason.OVERDUE, there[:1], there) == ["a"]
