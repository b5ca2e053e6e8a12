"""Replacements of admitted pods are released at once; other pods of the same name are not."""

from evaluator.features.gangs.core.membership import Owner
from evaluator.features.gangs.core.types import GangHistory, GangReason, GangState
from tests.evaluator.features.gangs.outcomes import NOW, gang, message, released, remembered, state


def test_successor_in_an_admitted_gang_is_released_at_once(a_pod, space_of, decided):
    placed = [a_pod(f"a-{n}", "a", 3, node="x", admitted=50.0) for n in range(2)]
    decisions = decided([*placed, a_pod("a-9", "a", 3)], space_of(placed, x=2))
    assert released(decisions) == {GangReason.REPLACEMENT: {"a-9"}}


def test_successor_waits_while_the_gang_lacks_others(a_pod, space_of, decided):
    pods = [a_pod("a-0", "a", 3, node="x", admitted=50.0), a_pod("a-9", "a", 3)]
    decisions = decided(pods, space_of(pods, x=8))
    assert not decisions.releases
    assert message(decisions, "a") == (
        "2 of 3 pods of podGroup a exist; it was admitted before and waits for replacements"
    )


def test_succeeded_pods_of_an_admitted_gang_are_not_missing(a_pod, space_of, decided):
    pods = [
        a_pod("a-0", "a", 3, node="x", admitted=50.0, phase="Succeeded"),
        a_pod("a-1", "a", 3, node="x", admitted=50.0),
        a_pod("a-9", "a", 3),
    ]
    assert released(decided(pods, space_of(pods, x=8))) == {GangReason.REPLACEMENT: {"a-9"}}


def test_pod_of_the_same_name_and_another_owner_queues(a_pod, space_of, decided):
    old = [a_pod(f"a-{n}", "a", 2, node="x", admitted=50.0, phase="Failed") for n in range(2)]
    new = [a_pod(f"b-{n}", "a", 2, owner=Owner("Job", "a", "another")) for n in range(2)]
    assert released(decided([*old, *new], space_of(x=8))) == {GangReason.ADMITTED: {"b-0", "b-1"}}


def test_all_pods_of_an_admitted_gang_may_be_replaced_at_once(a_pod, space_of, decided):
    first = decided(gang(a_pod, "a", 2), space_of(x=8))
    nobody = decided([], space_of(x=8), remembered(first), now=NOW + 1)
    successors = [a_pod(f"a-new-{n}", "a", 2) for n in range(2)]
    again = decided(successors, space_of(x=1), nobody.memory, now=NOW + 2)
    assert released(again) == {GangReason.REPLACEMENT: {"a-new-0", "a-new-1"}}


def test_pods_without_an_owner_are_replaced_by_name_only(a_pod, space_of, decided):
    bare = [a_pod(f"a-{n}", "a", 2, owner=Owner()) for n in range(2)]
    first = decided(bare, space_of(x=8))
    done = [
        a_pod(f"a-{n}", "a", 2, owner=Owner(), node="x", admitted=NOW, phase="Succeeded")
        for n in range(2)
    ]
    settled = decided(done, space_of(x=8), remembered(first), now=NOW + 1)
    new = [a_pod(f"b-{n}", "a", 2, owner=Owner()) for n in range(2)]
    decisions = decided([*done, *new], space_of(x=1), settled.memory, now=NOW + 2)
    assert not decisions.releases
    assert state(decisions, "a") is GangState.TOO_LARGE


def test_new_leader_completes_an_interrupted_release(a_pod, space_of, decided):
    pods = [
        a_pod("a-0", "a", 3, gated=False, admitted=NOW - 1),
        *(a_pod(f"a-{n}", "a", 3) for n in (1, 2)),
        *gang(a_pod, "b", 2, priority=9),
    ]
    decisions = decided(pods, space_of(x=8), GangHistory())
    assert released(decisions) == {GangReason.REPLACEMENT: {"a-1", "a-2"}}
    assert state(decisions, "b") is GangState.WAITS_FOR_TURN
