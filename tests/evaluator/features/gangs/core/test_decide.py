"""decide(): which gates are removed, in which order, and the verdicts on waiting gangs."""

from dataclasses import replace

import pytest

from evaluator.features.gangs.core.membership import Owner, QoS
from evaluator.features.gangs.core.types import GangReason, GangState, GangTimings
from tests.evaluator.features.gangs.outcomes import TERMS, gang, message, released, state


def test_gang_waits_until_all_pods_exist(a_pod, space_of, decided):
    pods = gang(a_pod, "train", 2, minimum=3)
    decisions = decided(pods, space_of(a=8))
    assert not decisions.releases
    assert state(decisions, "train") is GangState.INCOMPLETE
    assert message(decisions, "train") == "2 of 3 pods of podGroup train exist"


def test_complete_gang_that_fits_is_released_whole(a_pod, space_of, decided):
    decisions = decided(gang(a_pod, "train", 3), space_of(a=8))
    assert released(decisions) == {GangReason.ADMITTED: {"train-0", "train-1", "train-2"}}


def test_pods_that_are_hardest_to_place_go_first(a_pod, space_of, decided):
    pods = [
        a_pod("a", "mixed", 3, cpu=1),
        a_pod("b", "mixed", 3, cpu=4),
        a_pod("c", "mixed", 3, cpu=2),
    ]
    [release] = decided(pods, space_of(x=8)).releases
    assert [pod.name for pod in release.pods] == ["b", "c", "a"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_do_not_count(a_pod, space_of, decided, phase):
    pods = [*gang(a_pod, "train", 2, minimum=3), a_pod("train-9", "train", 3, phase=phase)]
    assert not decided(pods, space_of(a=8)).releases
    assert decided(pods, space_of(a=8), count_all=True).releases


def test_terminating_pods_do_not_count(a_pod, space_of, decided):
    pods = [*gang(a_pod, "train", 2, minimum=3), a_pod("train-9", "train", 3, leaving=True)]
    assert not decided(pods, space_of(a=8)).releases


def test_largest_min_available_counts(a_pod, space_of, decided, gangs_of):
    pods = [*gang(a_pod, "train", 2), a_pod("train-2", "train", 4)]
    decisions = decided(pods, space_of(a=8))
    assert message(decisions, "train") == "3 of 4 pods of podGroup train exist"
    assert gangs_of(pods)[0].problems == (
        "its pods name different minAvailable: 2, 4; the largest counts",
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"priority": 2}, {"priority": 1, "created": 1.0}),
        ({"qos": QoS.GUARANTEED}, {"qos": QoS.BURSTABLE, "created": 1.0}),
        ({"qos": QoS.BURSTABLE}, {"qos": QoS.BEST_EFFORT, "created": 1.0}),
        ({"created": 50.0}, {"created": 60.0}),
        ({"priority": 1, "qos": QoS.BEST_EFFORT}, {"qos": QoS.GUARANTEED}),
    ],
)
def test_order_is_priority_then_qos_class_then_age(a_pod, space_of, decided, first, second):
    pods = [*gang(a_pod, "z", 2, **first), *gang(a_pod, "b", 2, **second)]
    decisions = decided(pods, space_of(a=8))
    assert released(decisions) == {GangReason.ADMITTED: {"z-0", "z-1"}}
    assert state(decisions, "b") is GangState.WAITS_FOR_TURN


def test_gang_that_does_not_fit_now_does_not_block_the_next(a_pod, space_of, decided):
    pods = [*gang(a_pod, "big", 2, cpu=4, priority=9), *gang(a_pod, "small", 2)]
    capacity = space_of(x=8)
    capacity.free[0] = 3000
    decisions = decided(pods, capacity)
    assert released(decisions) == {GangReason.ADMITTED: {"small-0", "small-1"}}
    assert state(decisions, "big") is GangState.WAITS_FOR_ROOM
    assert message(decisions, "big").endswith("short of cpu")


def test_gang_that_can_never_fit_reports_so_and_never_blocks_the_queue(a_pod, space_of, decided):
    pods = [*gang(a_pod, "huge", 2, cpu=100, priority=9), *gang(a_pod, "small", 2)]
    decisions = decided(pods, space_of(x=8), now=1e6)
    assert released(decisions) == {GangReason.ADMITTED: {"small-0", "small-1"}}
    assert state(decisions, "huge") is GangState.TOO_LARGE


def test_foreign_gates_hold_the_gang_back(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2, minimum=3), a_pod("a-2", "a", 3, foreign=("other.io/gate",))]
    decisions = decided(pods, space_of(x=8))
    assert not decisions.releases
    assert state(decisions, "a") is GangState.GATED_BY_OTHERS
    assert "other.io/gate" in message(decisions, "a")


def test_gang_with_quorum_does_not_wait_for_pods_with_foreign_gates(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2), a_pod("a-2", "a", 2, foreign=("other.io/gate",))]
    decisions = decided(pods, space_of(x=8))
    assert released(decisions) == {GangReason.ADMITTED: {"a-0", "a-1"}}


def test_gang_larger_than_its_quorum_goes_when_the_quorum_fits(a_pod, space_of, decided):
    decisions = decided(gang(a_pod, "a", 5, minimum=2), space_of(x=3))
    assert released(decisions) == {GangReason.ADMITTED: {f"a-{n}" for n in range(5)}}


def test_gated_pod_without_a_gang_is_queued(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2), a_pod("lone", priority=5, owner=Owner())]
    assert released(decided(pods, space_of(x=8))) == {GangReason.ADMITTED: {"lone"}}


def test_policy_that_rejects_nodes_delays_a_gang_and_is_no_never(a_pod, space_of, decided):
    pods = gang(a_pod, "a", 2, policy="picky")
    capacity = space_of(x=8, y=1, only={"picky": {"y"}})
    decisions = decided(pods, capacity)
    assert not decisions.releases
    assert state(decisions, "a") is GangState.WAITS_FOR_ROOM


def test_capacity_is_not_required_with_a_cluster_autoscaler(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2, cpu=9), *gang(a_pod, "b", 2, priority=1, cpu=9)]
    decisions = decided(pods, space_of(x=1), timings=GangTimings(fit=False))
    assert released(decisions) == {GangReason.ADMITTED: {"b-0", "b-1"}}


def test_overdue_pods_are_ungated_only_with_gate_max_age(a_pod, space_of, decided):
    pods = gang(a_pod, "a", 2, minimum=3)
    assert not decided(pods, space_of(x=8), now=1e6).releases
    timings = GangTimings(gate_max_age=1000)
    early = decided(pods, space_of(x=8), now=1099, timings=timings)
    assert not early.releases
    assert early.again == 1100
    late = decided(pods, space_of(x=8), now=1100, timings=timings)
    assert released(late) == {GangReason.OVERDUE: {"a-0", "a-1"}}


def test_native_pod_groups_are_ignored(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2, native=True)]
    assert decided(pods, space_of(x=8)).verdicts == {}


def test_overdue_pod_is_released_once_for_one_reason(a_pod, space_of, decided):
    pods = gang(a_pod, "a", 2)
    pods[0] = a_pod("a-0", "a", 2, created=10.0)
    decisions = decided(pods, space_of(x=8), timings=replace(TERMS, gate_max_age=150))
    assert released(decisions) == {GangReason.OVERDUE: {"a-0"}, GangReason.ADMITTED: {"a-1"}}
