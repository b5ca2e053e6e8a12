"""One gang at a time: for which gang and how long capacity is reserved, without starving others."""

from evaluator.features.gangs.core import messages
from evaluator.features.gangs.core.decide import deciding
from evaluator.features.gangs.core.membership import Owner
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import GangHistory, GangReason, GangState
from tests.evaluator.features.gangs.outcomes import (
    NOW,
    SEEN,
    TERMS,
    after,
    gang,
    message,
    released,
    remembered,
    state,
)


def test_next_gang_waits_until_the_last_is_bound(a_pod, space_of, decided, with_membership):
    pods = [*gang(a_pod, "a", 2, priority=1), *gang(a_pod, "b", 2)]
    capacity = space_of(x=8)
    first = decided(pods, capacity)
    memory, pods = remembered(first), after(first, with_membership, pods)
    second = decided(pods, capacity, memory, now=NOW + 1)
    assert not second.releases
    assert state(second, "b") is GangState.WAITS_FOR_TURN
    placed = [*(a_pod(f"a-{n}", "a", 2, node="x", admitted=NOW) for n in range(2)), *pods[2:]]
    third = decided(placed, space_of(placed, x=8), second.memory, now=NOW + 2)
    assert released(third) == {GangReason.ADMITTED: {"b-0", "b-1"}}


def test_next_gang_goes_after_the_timeout_which_is_reported_once(
    a_pod, space_of, decided, with_membership
):
    pods = [*gang(a_pod, "a", 2, priority=1), *gang(a_pod, "b", 2)]
    capacity = space_of(x=8)
    first = decided(pods, capacity)
    pods = after(first, with_membership, pods)
    early = decided(pods, capacity, remembered(first), now=NOW + 59)
    assert not early.releases
    assert early.again == NOW + 60
    late = decided(pods, capacity, early.memory, now=NOW + 60)
    assert late.timeouts == (GangKey("default", "a"),)
    assert state(late, "a") is GangState.TIMED_OUT
    assert released(late) == {GangReason.ADMITTED: {"b-0", "b-1"}}
    again = decided(pods, capacity, late.memory, now=NOW + 61)
    assert not again.timeouts


def test_capacity_is_reserved_for_released_pods_until_the_timeout(
    a_pod, space_of, decided, with_membership
):
    pods = [*gang(a_pod, "a", 2, cpu=2), *gang(a_pod, "b", 2, cpu=2, created=150)]
    capacity = space_of(x=4)
    first = decided(pods, capacity)
    pods = after(first, with_membership, pods)
    after_timeout = decided(pods, capacity, remembered(first), now=NOW + 60)
    assert released(after_timeout) == {GangReason.ADMITTED: {"b-0", "b-1"}}  # a backs off
    second_turn = decided(pods, capacity, after_timeout.memory, now=NOW + 71)
    assert not second_turn.releases
    assert state(second_turn, "b") is GangState.WAITS_FOR_ROOM


def test_two_gangs_that_fit_alone_are_not_both_released(a_pod, space_of, decided, with_membership):
    pods = [*gang(a_pod, "a", 3), *gang(a_pod, "b", 3)]
    capacity = space_of(x=2, y=2)
    first = decided(pods, capacity)
    assert [one.gang.name for one in first.releases] == ["a"]
    # One of three is bound, and the others are being tried.
    pods = after(first, with_membership, pods)
    pods[0] = a_pod("a-0", "a", 3, node="x", admitted=NOW)
    second = decided(pods, space_of(pods, x=2, y=2), remembered(first), now=NOW + 1)
    assert not second.releases


def test_queue_is_blocked_for_an_aged_gang_until_its_turn_ends(a_pod, space_of, decided):
    pods = [*gang(a_pod, "big", 2, cpu=4, priority=9), *gang(a_pod, "small", 2)]
    capacity = space_of(x=8)
    capacity.free[0] = 3000
    aged = 100.0 + TERMS.ageing
    held = decided(pods, capacity, now=aged)
    assert not held.releases
    assert state(held, "small") is GangState.WAITS_FOR_TURN
    assert held.again == aged + TERMS.timeout
    ended = decided(pods, capacity, held.memory, now=aged + 60)
    assert ended.timeouts == (GangKey("default", "big"),)
    assert released(ended) == {GangReason.ADMITTED: {"small-0", "small-1"}}
    # After its backoff (10 s at first, then doubled) the queue is blocked again.
    resting = decided(pods, capacity, ended.memory, now=aged + 69)
    assert resting.releases
    again = decided(pods, capacity, resting.memory, now=aged + 70)
    assert not again.releases
    longer = decided(pods, capacity, again.memory, now=aged + 130)
    assert longer.releases
    assert longer.memory.reservations[GangKey("default", "big")].rests_until == aged + 150


def test_new_capacity_is_used_during_backoff_too(a_pod, space_of, decided):
    pods = gang(a_pod, "big", 2, cpu=4)
    tight = space_of(x=8)
    tight.free[0] = 3000
    aged = 100.0 + TERMS.ageing
    held = decided(pods, tight, now=aged)
    ended = decided(pods, tight, held.memory, now=aged + 60)
    assert decided(pods, space_of(x=8), ended.memory, now=aged + 61).releases


def test_no_gang_is_released_before_the_cache_shows_the_last_release(a_pod, space_of, decided):
    pods = [*gang(a_pod, "a", 2, priority=1), *gang(a_pod, "b", 2)]
    first = decided(pods, space_of(x=8))
    pods.append(a_pod("c", cpu=1, priority=9))
    stale = decided(pods, space_of(x=8), remembered(first), now=NOW + 0.1)
    assert GangReason.ADMITTED not in released(stale)


def test_first_reservation_is_kept_while_its_pods_are_replaced(a_pod, space_of, decided):
    """For pods without an owner only the reservation tells that they were admitted, until lifted gates are observed."""
    bare = [a_pod(f"a-{n}", "a", 2, owner=Owner(), priority=1) for n in range(2)]
    first = decided(bare, space_of(x=8))
    replaced = [a_pod(f"a-new-{n}", "a", 2, owner=Owner(), priority=1) for n in range(2)]
    pods = [*replaced, a_pod("a-other", "a", 2), a_pod("b", priority=9, owner=Owner())]
    second = decided(pods, space_of(x=8), remembered(first), now=NOW + 1)
    assert released(second) == {GangReason.REPLACEMENT: {"a-new-0", "a-new-1"}}
    unseen = decided(pods, space_of(x=8), remembered(second), now=NOW + 1.1)
    assert GangReason.ADMITTED not in released(unseen)


def test_running_gang_reports_a_timeout_of_its_other_pods_once(a_pod, space_of, decided):
    pods = [
        *(a_pod(f"a-{n}", "a", 2, node="x", admitted=NOW) for n in range(2)),
        a_pod("a-2", "a", 2, gated=False, admitted=NOW),
    ]
    capacity = space_of(pods, x=2)
    first = decided(pods, capacity, GangHistory(), now=NOW + 60)
    assert [key.name for key in first.timeouts] == ["a"]
    assert (state(first, "a"), message(first, "a")) == (GangState.RELEASED, messages.WORKS)
    resting = first.memory.reservations[GangKey("default", "a")].rests_until
    kept = decided(pods, capacity, first.memory, now=resting)
    ended = decided(pods, capacity, kept.memory, now=resting + 60)
    assert not ended.timeouts
    assert ended.memory.reservations[GangKey("default", "a")].misses == 2


def test_single_pods_are_released_one_by_one_with_reservations(
    a_pod, space_of, decided, with_membership
):
    pods = [a_pod("a"), a_pod("b", created=150)]
    first = decided(pods, space_of(x=8))
    pods = after(first, with_membership, pods)
    second = decided(pods, space_of(pods, x=8), remembered(first), now=NOW + 1)
    assert not second.releases
    assert state(second, "a") is GangState.RELEASED
    placed = [a_pod("a", node="x", admitted=NOW), pods[1]]
    third = decided(placed, space_of(placed, x=8), second.memory, now=NOW + 2)
    assert released(third) == {GangReason.ADMITTED: {"b"}}
    assert not third.memory.admitted  # bound pods are not waited for


def test_used_reservation_does_not_delay_its_own_gang(a_pod, space_of, decided, with_membership):
    first = decided(pods := gang(a_pod, "a", 2), space_of(x=8))
    pods = [a_pod(f"a-{n}", "a", 2, node="x", admitted=NOW) for n in range(2)]
    pods.append(a_pod("a-2", "a", 2, owner=Owner("Job", "other", "uid-other")))
    second = decided(pods, space_of(pods, x=8), remembered(first), now=NOW + 1)
    assert released(second) == {GangReason.ADMITTED: {"a-2"}}


def test_decision_yields_between_any_two_gangs(a_pod, gangs_of, space_of):
    """kube-scheduler must not wait while all gangs are evaluated."""
    pods = [pod for number in range(20) for pod in gang(a_pod, f"g{number}", 2, cpu=9)]
    given = gangs_of(pods), space_of(pods, n=8), SEEN, TERMS
    steps = sum(1 for _ in deciding(*given, now=NOW, random=lambda: 0.0))
    assert steps > 2 * 20
