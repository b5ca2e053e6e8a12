"""The JSON patch that lifts a gate, and the pods that a release still includes."""

import pytest

from evaluator.core.model import pod_spec_view
from evaluator.features.gangs.core.membership import (
    ADMITTED,
    GATE,
    GatedPod,
    GatedPodMetadata,
    GatedPodSpec,
    Owner,
    ungate_patch,
)
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import GangReason, GangRelease
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
    return ungate_patch(
        GatedPod(
            GatedPodMetadata(
                meta["uid"], meta["resourceVersion"], meta.get("labels"), meta.get("annotations")
            ),
            GatedPodSpec([pod_spec_view.Gate(gate["name"]) for gate in spec["schedulingGates"]]),
        ),
        at,
    )


def lifted(known, now=None):
    return json_patch(now or known, patch(known))


def test_own_gate_is_removed_and_others_stay():
    after = lifted(pod("a.io/x", GATE, "b.io/y"))
    assert after["spec"]["schedulingGates"] == [{"name": "a.io/x"}, {"name": "b.io/y"}]


@pytest.mark.parametrize("annotations", [None, {}, {"team": "ml"}, {ADMITTED: "long ago"}])
def test_admission_time_is_recorded_and_no_annotation_is_lost(annotations):
    after = lifted(pod(GATE, annotations=annotations))
    assert after["metadata"]["annotations"] == {**(annotations or {}), ADMITTED: AT}


@pytest.mark.parametrize("annotations", [None, {"team": "ml"}])
def test_no_admission_time_is_recorded_for_an_overdue_pod(annotations):
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
    ids=[
        "same name, another uid",
        "lifted",
        "lifted, a foreign gate left",
        "gates reordered",
        "annotated",
    ],
)
def test_patch_of_a_changed_pod_fails(now):
    with pytest.raises(ApiError):
        lifted(pod(GATE), now)


@pytest.mark.parametrize("labels", [{"podGroup": "other"}, {"podGroup": "train", "x": "y"}, None])
def test_patch_of_a_pod_that_may_have_changed_its_gang_fails(labels):
    known = pod(GATE, labels={"podGroup": "train"})
    assert lifted(known)["spec"]["schedulingGates"] == []
    with pytest.raises(ApiError):
        lifted(known, pod(GATE, **({} if labels is None else {"labels": labels})))


def test_annotation_added_meanwhile_stays():
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
        return [one.name for one in GangRelease(KEY, reason, tuple(meant)).due(gang)]

    return names


def test_gang_is_ungated_whole_with_pods_created_since(members, names_due):
    meant = members("a", "b", "c")
    assert names_due(GangReason.ADMITTED, meant, meant) == ["a", "b", "c"]
    assert names_due(GangReason.ADMITTED, meant, members("b", "c", "d", "e")) == [
        "b",
        "c",
        "d",
        "e",
    ]


def test_pods_are_ungated_in_packing_order(members, names_due):
    meant = members("c", "a", "b")
    assert names_due(GangReason.ADMITTED, meant, members("a", "aa", "b", "c")) == [
        "c",
        "a",
        "b",
        "aa",
    ]


def test_gang_without_quorum_is_not_ungated(members, names_due):
    meant = members("a", "b", "c")
    assert names_due(GangReason.ADMITTED, meant, members("a", "b")) == []
    going = members("c", leaving=True)
    assert names_due(GangReason.ADMITTED, meant, members("a", "b") + going) == []
    assert names_due(GangReason.REPLACEMENT, meant, members("a", "b") + going) == []


def test_gang_is_not_ungated_if_foreign_gates_leave_too_few(members, names_due):
    held = members("c", foreign=("a.io/x",))
    assert names_due(GangReason.ADMITTED, members("a", "b", "c"), members("a", "b") + held) == []
    more = members("a", "b", "d")
    assert names_due(GangReason.ADMITTED, members("a", "b", "c"), more + held) == ["a", "b", "d"]


def test_replacement_is_ungated_beside_succeeded_pods(members, names_due):
    there = members("a") + members("b", "c", gated=False, phase="Succeeded")
    assert names_due(GangReason.REPLACEMENT, there[:1], there) == ["a"]
    assert names_due(GangReason.ADMITTED, there[:1], there) == []


def test_replacement_is_ungated_alone_without_pods_of_another_owner(members, names_due):
    other = members("c", "d", owner=Owner("Job", "train", "another"))
    there = members("a") + members("b", node="n") + other
    assert names_due(GangReason.REPLACEMENT, members("a"), [*there]) == ["a"]


def test_only_the_given_overdue_pods_are_ungated(members, names_due):
    there = members("a", "b", foreign=("a.io/x",))
    assert names_due(GangReason.OVERDUE, there[:1], there) == ["a"]
