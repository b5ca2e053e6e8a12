"""Which gates are lifted, in which order, and what is told of those that stay."""

from dataclasses import replace

import pytest

from evaluator.gangs import words
from evaluator.gangs.gang import decide, deciding
from evaluator.gangs.group import GangKey
from evaluator.gangs.membership import Owner, QoS
from evaluator.gangs.verdicts import Memory, Reason, State, Terms

NOW = 200.0
TERMS = Terms(timeout=60, backoff=10, longest_backoff=300, ageing=300)
SEEN = Memory(fresh=False)


@pytest.fixture
def decided(gangs_of):
    """A decision on some pods in some space."""

    def run(pods, space, memory=SEEN, *, now=NOW, terms=TERMS, count_all=False):
        gangs = gangs_of(pods, count_all=count_all)
        return decide(gangs, space, memory, terms, now=now, random=lambda: 0.0)

    return run


def released(outcome):
    """Names of pods by the reason for which their gates are lifted."""
    return {one.reason: {pod.name for pod in one.pods} for one in outcome.releases}


def state(outcome, name):
    return next(said.state for key, said in outcome.verdicts.items() if key.name == name)


def message(outcome, name):
    return next(said.message for key, said in outcome.verdicts.items() if key.name == name)


def gang(a_pod, name, count, minimum=None, **more):
    return [a_pod(f"{name}-{n}", name, minimum or count, **more) for n in range(count)]


def after(outcome, with_membership, pods, *, now=NOW):
    """The pods once the gates of a decision are lifted."""
    lifted = {pod.uid for one in outcome.releases for pod in one.pods}
    return [
        with_membership(pod, gated=False, admitted=now) if pod.uid in lifted else pod
        for pod in pods
    ]


def remembered(outcome, *, now=NOW):
    memory = outcome.memory
    for one in outcome.releases:
        memory = memory.released(one, now=now)
    return memory


def test_a_gang_waits_until_all_of_it_exists(a_pod, space_of, decided):
    pods = gang(a_pod, "train", 2, minimum=3)
    outcome = decided(pods, space_of(a=8))
    assert not outcome.releases
    assert state(outcome, "train") is State.INCOMPLETE
    assert message(outcome, "train") == "2 of 3 pods of podGroup train exist"


def test_a_complete_gang_that_fits_is_released_whole(a_pod, space_of, decided):
    outcome = decided(gang(a_pod, "train", 3), space_of(a=8))
    assert released(outcome) == {Reason.ADMITTED: {"train-0", "train-1", "train-2"}}


def test_the_pods_that_are_hardest_to_place_go_first(a_pod, space_of, decided):
    pods = [
        a_pod("a", "mixed", 3, cpu=1),
        a_pod("b", "mixed", 3, cpu=4),
        a_pod("c", "mixed", 3, cpu=2),
    ]
    [release] = decided(pods, space_of(x=8)).releases
    assert [pod.name for pod in release.pods] == ["b", "c", "a"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_cannot_run_any_more_do_not_count(a_pod, space_of, decided, phase):
    pods = [*gang(a_pod, "train", 2, minimum=3), a_pod("train-9", "train", 3, phase=phase)]
    assert not decided(pods, space_of(a=8)).releases
    assert decided(pods, space_of(a=8), count_all=True).releases


def test_pods_on_their_way_out_do_not_count(a_pod, space_of, decided):
    pods = [*gang(a_pod, "train", 2, minimum=3), a_pod("train-9", "train", 3, leaving=True)]
    assert not decided(pods, space_of(a=8)).releases


def test_the_largest_minimum_counts(a_pod, space_of, decided, gangs_of):
    pods = [*gang(a_pod, "train", 2), a_pod("train-2", "train", 4)]
    outcome = decided(pods, space_of(a=8))
    assert message(outcome, "train") == "3 of 4 pods of podGroup train exist"
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
def test_order_is_priority_then_class_then_age(a_pod, space_of, decided, first, second):
    pods = [*gang(a_pod, "z", 2, **first), *gang(a_pod, "b", 2, **second)]
    outcome = decided(pods, space_of(a=8))
    assert released(outcome) == {Reason.ADMITTED: {"z-0", "z-1"}}
    assert state(outcome, "b") is State.WAITS_FOR_TURN


def test_the_next_waits_until_the_last_has_nodes(a_pod, space_of, decided, with_membership):
    pods = [*gang(a_pod, "a", 2, priority=1), *gang(a_pod, "b", 2)]
    space = space_of(x=8)
    first = decided(pods, space)
    memory, pods = remembered(first), after(first, with_membership, pods)
    second = decided(pods, space, memory, now=NOW + 1)
    assert not second.releases
    assert state(second, "b") is State.WAITS_FOR_TURN
    placed = [*(a_pod(f"a-{n}", "a", 2, node="x", admitted=NOW) for n in range(2)), *pods[2:]]
    third = decided(placed, space_of(placed, x=8), second.memory, now=NOW + 2)
    assert released(third) == {Reason.ADMITTED: {"b-0", "b-1"}}


def test_the_next_goes_when_time_is_up_and_the_timeout_is_reported_once(
    a_pod, space_of, decided, with_membership
):
    pods = [*gang(a_pod, "a", 2, priority=1), *gang(a_pod, "b", 2)]
    space = space_of(x=8)
    first = decided(pods, space)
    pods = after(first, with_membership, pods)
    early = decided(pods, space, remembered(first), now=NOW + 59)
    assert not early.releases
    assert early.again == NOW + 60
    late = decided(pods, space, early.memory, now=NOW + 60)
    assert late.timeouts == (GangKey("default", "a"),)
    assert state(late, "a") is State.TIMED_OUT
    assert released(late) == {Reason.ADMITTED: {"b-0", "b-1"}}
    again = decided(pods, space, late.memory, now=NOW + 61)
    assert not again.timeouts


def test_room_is_kept_for_pods_that_were_released_and_not_for_ever(
    a_pod, space_of, decided, with_membership
):
    pods = [*gang(a_pod, "a", 2, cpu=2), *gang(a_pod, "b", 2, cpu=2, created=150)]
    space = space_of(x=4)
    first = decided(pods, space)
    pods = after(first, with_membership, pods)
    after_timeout = decided(pods, space, remembered(first), now=NOW + 60)
    assert released(after_timeout) == {Reason.ADMITTED: {"b-0", "b-1"}}  # a rests
    second_turn = decided(pods, space, after_timeout.memory, now=NOW + 71)
    assert not second_turn.releases
    assert state(second_turn, "b") is State.WAITS_FOR_ROOM


def test_two_gangs_that_fit_alone_are_not_both_released(a_pod, space_of, decided, with_membership):
    pods = [*gang(a_pod, "a", 3), *gang(a_pod, "b", 3)]
    space = space_of(x=2, y=2)
    first = decided(pods, space)
    assert [one.gang.name for one in first.releases] == ["a"]
    # One of three has a node, and the others are being tried.
    pods = after(first, with_membership, pods)
    pods[0] = a_pod("a-0", "a", 3, node="x", admitted=NOW)
    second = decided(pods, space_of(pods, x=2, y=2), remembered(first), now=NOW + 1)
    assert not second.releases


def test_one_that_does_not_fit_now_does_not_block_the_next(a_pod, space_of, decided):
    pods = [*gang(a_pod, "big", 2, cpu=4, priority=9), *gang(a_pod, "small", 2)]
    space = space_of(x=8)
    space.free[0] = 3000
    outcome = decided(pods, space)
    assert released(outcome) == {Reason.ADMITTED: {"small-0", "small-1"}}
    assert state(outcome, "big") is State.WAITS_FOR_ROOM
    assert message(outcome, "big").endswith("what is short is cpu")


def test_one_that_can_never_fit_says_so_and_holds_no_line_however_old(a_pod, space_of, decided):
    pods = [*gang(a_pod, "huge", 2, cpu=100, priority=9), *gang(a_pod, "small", 2)]
    outcome = decided(pods, space_of(x=8), now=1e6)
    assert released(outcome) == {Reason.ADMITTED: {"small-0", "small-1"}}
    assert state(outcome, "huge") is State.TOO_LARGE


def test_the_line_is_held_for_an_aged_gang_until_its_turn_ends(a_pod, space_of, decided):
    pods = [*gang(a_pod, "big", 2, cpu=4, priority=9), *gang(a_pod, "small", 2)]
    space = space_of(x=8)
    space.free[0] = 3000
    aged = 100.0 + TERMS.ageing
    held = decided(pods, space, now=aged)
    assert not held.releases
    assert state(held, "small") is State.WAITS_FOR_TURN
    assert held.again == aged + TERMS.timeout
    ended = decided(pods, space, held.memory, now=aged + 60)
    assert ended.timeouts == (GangKey("default", "big"),)
    assert released(ended) == {Reason.ADMITTED: {"small-0", "small-1"}}
    # After its rest (10 s at first, then twice as long) the line is held again.
    resting = decided(pods, space, ended.memory, now=aged + 69)
    assert resting.releases
    again = decided(pods, space, resting.memory, now=aged + 70)
    assert not again.releases
    longer = decided(pods, space, again.memory, now=aged + 130)
    assert longer.releases
    assert longer.memory.turns[GangKey("default", "big")].rests_until == aged + 150


def test_room_that_appears_is_used_in_a_rest_too(a_pod, space_of, decided):
    pods = gang(a_pod, "big", 2, cpu=4)
    tight = space_of(x=8)
    tight.free[0] = 3000
    aged = 100.0 + TERMS.ageing
    held = decided(pods, tight, now=aged)
    ended = decided(pods, tight, held.memory, now=aged + 60)
    assert decided(pods, space_of(x=8), ended.memory, now=aged + 61).releases


def test_a_successor_of_an_admitted_gang_goes_at_once(a_pod, space_of, decided):
    placed = [a_pod(f"a-{n}", "a", 3, node="x", admitted=50.0) for n in range(2)]
    outcome = decided([*placed, a_pod("a-9", "a", 3)], space_of(placed, x=2))
    assert released(outcome) == {Reason.REPLACEMENT: {"a-9"}}


def test_a_successor_waits_while_the_gang_lacks_others(a_pod, space_of, decided):
    pods = [a_pod("a-0", "a", 3, node="x", admitted=50.0), a_pod("a-9", "a", 3)]
    outcome = decided(pods, space_of(pods, x=8))
    assert not outcome.releases
    assert message(outcome, "a") == (
        "2 of 3 pods of podGroup a exist; it was admitted before, and waits for those that it lost"
    )


def test_pods_that_have_done_their_work_are_not_missed_in_an_admitted_gang(
    a_pod, space_of, decided
):
    pods = [
        a_pod("a-0", "a", 3, node="x", admitted=50.0, phase="Succeeded"),
        a_pod("a-1", "a", 3, node="x", admitted=50.0),
        a_pod("a-9", "a", 3),
    ]
    assert released(decided(pods, space_of(pods, x=8))) == {Reason.REPLACEMENT: {"a-9"}}


def test_a_namesake_of_another_owner_queues_like_any_gang(a_pod, space_of, decided):
    old = [a_pod(f"a-{n}", "a", 2, node="x", admitted=50.0, phase="Failed") for n in range(2)]
    new = [a_pod(f"b-{n}", "a", 2, owner=Owner("Job", "a", "another")) for n in range(2)]
    assert released(decided([*old, *new], space_of(x=8))) == {Reason.ADMITTED: {"b-0", "b-1"}}


def test_all_pods_of_an_admitted_gang_may_be_lost_at_once(a_pod, space_of, decided):
    first = decided(gang(a_pod, "a", 2), space_of(x=8))
    nobody = decided([], space_of(x=8), remembered(first), now=NOW + 1)
    successors = [a_pod(f"a-new-{n}", "a", 2) for n in range(2)]
    again = decided(successors, space_of(x=1), nobody.memory, now=NOW + 2)
    assert released(again) == {Reason.REPLACEMENT: {"a-new-0", "a-new-1"}}


def test_pods_without_an_owner_have_namesakes_and_no_successors(a_pod, space_of, decided):
    bare = [a_pod(f"a-{n}", "a", 2, owner=Owner()) for n in range(2)]
    first = decided(bare, space_of(x=8))
    done = [
        a_pod(f"a-{n}", "a", 2, owner=Owner(), node="x", admitted=NOW, phase="Succeeded")
        for n in range(2)
    ]
    settled = decided(done, space_of(x=8), remembered(first), now=NOW + 1)
    new = [a_pod(f"b-{n}", "a", 2, owner=Owner()) for n in range(2)]
    outcome = decided([*done, *new], space_of(x=1), settled.memory, now=NOW + 2)
    assert not outcome.releases
    assert state(outcome, "a") is State.TOO_LARGE


def test_a_new_leader_goes_on_with_a_release_that_was_cut_short(a_pod, space_of, decided):
    pods = [
        a_pod("a-0", "a", 3, gated=False, admitted=NOW - 1),
        *(a_pod(f"a-{n}", "a", 3) for n in (1, 2)),
        *gang(a_pod, "b", 2, priority=9),
    ]
    outcome = decided(pods, space_of(x=8), Memory())
    assert released(outcome) == {Reason.REPLACEMENT: {"a-1", "a-2"}}
    assert state(outcome, "b") is State.WAITS_FOR_TURN


def test_nobody_else_is_released_before_the_copy_shows_the_last_release(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2, priority=1), *gang(a_pod, "b", 2)]
    first = decided(pods, space_of(x=8))
    pods.append(a_pod("c", cpu=1, priority=9))
    stale = decided(pods, space_of(x=8), remembered(first), now=NOW + 0.1)
    assert Reason.ADMITTED not in released(stale)


def test_a_first_turn_is_not_forgotten_while_its_pods_are_replaced(a_pod, space_of, decided):
    """Of pods without an owner only the turn tells that they were admitted, until their gates are seen to be lifted."""
    bare = [a_pod(f"a-{n}", "a", 2, owner=Owner(), priority=1) for n in range(2)]
    first = decided(bare, space_of(x=8))
    replaced = [a_pod(f"a-new-{n}", "a", 2, owner=Owner(), priority=1) for n in range(2)]
    pods = [*replaced, a_pod("a-other", "a", 2), a_pod("b", priority=9, owner=Owner())]
    second = decided(pods, space_of(x=8), remembered(first), now=NOW + 1)
    assert released(second) == {Reason.REPLACEMENT: {"a-new-0", "a-new-1"}}
    unseen = decided(pods, space_of(x=8), remembered(second), now=NOW + 1.1)
    assert Reason.ADMITTED not in released(unseen)


def test_gates_of_others_hold_the_gang_back(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2, minimum=3), a_pod("a-2", "a", 3, foreign=("other.io/gate",))]
    outcome = decided(pods, space_of(x=8))
    assert not outcome.releases
    assert state(outcome, "a") is State.GATED_BY_OTHERS
    assert "other.io/gate" in message(outcome, "a")


def test_pods_held_by_others_follow_a_gang_that_has_its_quorum_without_them(
    a_pod, space_of, decided
):
    pods = [*gang(a_pod, "a", 2), a_pod("a-2", "a", 2, foreign=("other.io/gate",))]
    outcome = decided(pods, space_of(x=8))
    assert released(outcome) == {Reason.ADMITTED: {"a-0", "a-1"}}


def test_a_gang_with_more_pods_than_it_needs_goes_when_its_quorum_fits(a_pod, space_of, decided):
    outcome = decided(gang(a_pod, "a", 5, minimum=2), space_of(x=3))
    assert released(outcome) == {Reason.ADMITTED: {f"a-{n}" for n in range(5)}}


def test_of_a_gang_that_works_it_is_told_once_that_others_of_it_found_no_nodes(
    a_pod, space_of, decided
):
    pods = [
        *(a_pod(f"a-{n}", "a", 2, node="x", admitted=NOW) for n in range(2)),
        a_pod("a-2", "a", 2, gated=False, admitted=NOW),
    ]
    space = space_of(pods, x=2)
    first = decided(pods, space, Memory(), now=NOW + 60)
    assert [key.name for key in first.timeouts] == ["a"]
    assert (state(first, "a"), message(first, "a")) == (State.RELEASED, words.WORKS)
    resting = first.memory.turns[GangKey("default", "a")].rests_until
    kept = decided(pods, space, first.memory, now=resting)
    ended = decided(pods, space, kept.memory, now=resting + 60)
    assert not ended.timeouts
    assert ended.memory.turns[GangKey("default", "a")].misses == 2


def test_a_gated_pod_of_no_gang_takes_its_turn(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2), a_pod("lone", priority=5, owner=Owner())]
    assert released(decided(pods, space_of(x=8))) == {Reason.ADMITTED: {"lone"}}


def test_a_policy_that_keeps_pods_off_is_heeded_and_is_no_reason_for_never(
    a_pod, space_of, decided
):
    pods = gang(a_pod, "a", 2, policy="picky")
    space = space_of(x=8, y=1, only={"picky": {"y"}})
    outcome = decided(pods, space)
    assert not outcome.releases
    assert state(outcome, "a") is State.WAITS_FOR_ROOM


def test_room_need_not_be_there_where_somebody_makes_nodes(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2, cpu=9), *gang(a_pod, "b", 2, priority=1, cpu=9)]
    outcome = decided(pods, space_of(x=1), terms=Terms(fit=False))
    assert released(outcome) == {Reason.ADMITTED: {"b-0", "b-1"}}


def test_overdue_gates_are_lifted_and_only_if_asked_for(a_pod, space_of, decided):
    pods = gang(a_pod, "a", 2, minimum=3)
    assert not decided(pods, space_of(x=8), now=1e6).releases
    terms = Terms(gate_max_age=1000)
    early = decided(pods, space_of(x=8), now=1099, terms=terms)
    assert not early.releases
    assert early.again == 1100
    late = decided(pods, space_of(x=8), now=1100, terms=terms)
    assert released(late) == {Reason.OVERDUE: {"a-0", "a-1"}}


def test_pods_that_kubernetes_schedules_as_a_group_are_not_ours(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2, native=True)]
    assert decided(pods, space_of(x=8)).verdicts == {}


def test_pods_alone_go_one_after_another_too_and_room_is_kept_for_them(
    a_pod, space_of, decided, with_membership
):
    pods = [a_pod("a"), a_pod("b", created=150)]
    first = decided(pods, space_of(x=8))
    pods = after(first, with_membership, pods)
    second = decided(pods, space_of(pods, x=8), remembered(first), now=NOW + 1)
    assert not second.releases
    assert state(second, "a") is State.RELEASED
    placed = [a_pod("a", node="x", admitted=NOW), pods[1]]
    third = decided(placed, space_of(placed, x=8), second.memory, now=NOW + 2)
    assert released(third) == {Reason.ADMITTED: {"b"}}
    assert not third.memory.admitted  # who has a node is nobody's to wait for


def test_an_overdue_pod_goes_once_for_one_reason(a_pod, space_of, decided):
    pods = gang(a_pod, "a", 2)
    pods[0] = a_pod("a-0", "a", 2, created=10.0)
    outcome = decided(pods, space_of(x=8), terms=replace(TERMS, gate_max_age=150))
    assert released(outcome) == {Reason.OVERDUE: {"a-0"}, Reason.ADMITTED: {"a-1"}}


def test_a_gang_is_not_held_up_by_a_turn_that_it_has_made_use_of(
    a_pod, space_of, decided, with_membership
):
    first = decided(pods := gang(a_pod, "a", 2), space_of(x=8))
    pods = [a_pod(f"a-{n}", "a", 2, node="x", admitted=NOW) for n in range(2)]
    pods.append(a_pod("a-2", "a", 2, owner=Owner("Job", "other", "uid-other")))
    second = decided(pods, space_of(pods, x=8), remembered(first), now=NOW + 1)
    assert released(second) == {Reason.ADMITTED: {"a-2"}}


def test_others_have_a_turn_between_any_two_gangs(a_pod, gangs_of, space_of):
    """kube-scheduler does not wait for an answer while all of them are looked at."""
    pods = [pod for number in range(20) for pod in gang(a_pod, f"g{number}", 2, cpu=9)]
    given = gangs_of(pods), space_of(pods, n=8), SEEN, TERMS
    steps = sum(1 for _ in deciding(*given, now=NOW, random=lambda: 0.0))
    assert steps > 2 * 20
