"""No gang starves: neither behind a blocked queue nor behind a reservation without end."""

import random

import pytest

from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import GangHistory, GangReason, GangTimings, Reservation

NOW = 1000.0
TERMS = GangTimings(timeout=60, backoff=10, longest_backoff=300, ageing=300)


def gang(a_pod, name, count, **more):
    return [a_pod(f"{name}-{n}", name, count, **more) for n in range(count)]


def released_after(name, gangs, capacity, memory, *, within):
    """Seconds until a gang is released if nothing else happens; None if it is not."""
    rng, now = random.Random(1), NOW
    while now < NOW + within:
        decisions = decide(gangs, capacity, memory, TERMS, now=now, random=rng.random)
        if any(release.gang.name == name for release in decisions.releases):
            return now - NOW
        memory, now = decisions.memory, max(decisions.again, now + 1)
    return None


def test_gates_lifted_by_a_clock_ahead_block_others_for_one_timeout(a_pod, space_of, gangs_of):
    """A new leader reads reservations from annotations; a time in the future must not extend them."""
    ahead = gang(a_pod, "ahead", 2, gated=False, admitted=NOW + 1e7)
    pods = ahead + gang(a_pod, "next", 2, created=NOW)
    waited = released_after("next", gangs_of(pods), space_of(x=8), GangHistory(), within=3600)
    assert waited == pytest.approx(TERMS.timeout, abs=2)


@pytest.mark.parametrize("many", [1, 2, 5, 20])
def test_gangs_without_capacity_do_not_starve_those_that_fit(a_pod, space_of, gangs_of, many):
    """They would fit without a pod that never ends. Each blocks the queue once and backs off; not in turns."""
    service = a_pod("service", cpu=1, node="x")
    waiting = [pod for n in range(many) for pod in gang(a_pod, f"large-{n}", 2, cpu=4)]
    waiting += gang(a_pod, "small", 2, cpu=1, created=NOW)
    gangs, capacity = gangs_of([service, *waiting]), space_of([service], x=8)
    waited = released_after("small", gangs, capacity, GangHistory(fresh=False), within=6 * 3600)
    assert waited == pytest.approx(TERMS.timeout, abs=2)


def test_overdue_pods_are_not_released_a_second_time(a_pod, space_of, gangs_of):
    """Nor is its gang admitted: the younger pod waits."""
    timings = GangTimings(gate_max_age=500)
    old, young = a_pod("old", "train", 3), a_pod("young", "train", 3, created=900.0)
    placed = [a_pod("placed", "train", 3, node="x", admitted=50.0)]
    gangs, capacity = gangs_of([old, young, *placed]), space_of(placed, x=8)
    decisions = decide(gangs, capacity, GangHistory(), timings, now=NOW, random=lambda: 0.0)
    told = [(one.reason, [pod.name for pod in one.pods]) for one in decisions.releases]
    assert told == [(GangReason.OVERDUE, ["old"]), (GangReason.REPLACEMENT, ["young"])]

    # As the pod is afterwards: an overdue pod gets no admission time.
    gone = a_pod("old", "train", 3, gated=False)
    after = gangs_of([gone, a_pod("young", "train", 2, created=900.0, cpu=100)])
    decisions = decide(
        after, capacity, GangHistory(fresh=False), timings, now=NOW, random=lambda: 0.0
    )
    assert not decisions.releases


def test_queue_is_not_blocked_for_a_gang_whose_policy_rejects_all_nodes(a_pod, space_of, gangs_of):
    """However long it waits: blocking others would not make its nodes eligible."""
    pods = gang(a_pod, "picky", 2, priority=9, policy="hot")
    pods += gang(a_pod, "next", 2, created=NOW)
    capacity = space_of(x=8, only={"hot": set()})
    assert (
        released_after("next", gangs_of(pods), capacity, GangHistory(fresh=False), within=600) == 0
    )


@pytest.mark.parametrize("many", [1, 5, 40])
def test_unschedulable_gangs_do_not_keep_a_clusters_capacity_reserved(
    a_pod, space_of, gangs_of, many
):
    """Capacity is reserved for each of them from time to time, but not for all in turns."""
    stuck = [
        pod
        for n in range(many)
        for pod in gang(a_pod, f"stuck-{n}", 2, gated=False, admitted=NOW - 4000)
    ]
    gangs = gangs_of(stuck + gang(a_pod, "next", 2, cpu=6, created=NOW))
    capacity, memory = space_of(x=16), GangHistory(fresh=False)
    for moment in range(0, 3600, 5):  # past the first reservation of each
        memory = decide(
            [one for one in gangs if one.key.name != "next"],
            capacity,
            memory,
            TERMS,
            now=NOW - 3600 + moment,
            random=random.Random(moment).random,
        ).memory
    waited = released_after("next", gangs, capacity, memory, within=6 * 3600)
    assert waited is not None
    assert waited <= 2 * TERMS.timeout


def test_reservation_ends_although_the_gang_keeps_getting_new_pods(a_pod, space_of, gangs_of):
    """One of its pods finds no node while others are created, run, end and are replaced."""
    waiting = gang(a_pod, "next", 2, created=NOW)
    stuck = a_pod("stuck", "busy", 2, gated=False, admitted=NOW)
    memory = GangHistory(
        reservations={GangKey("default", "busy"): Reservation(NOW, first=True)}, fresh=False
    )
    for moment in range(0, 3600, 20):
        now = NOW + moment
        young = a_pod(f"young-{moment}", "busy", 2, gated=False, admitted=now)
        found = decide(
            gangs_of([stuck, young, *waiting]),
            space_of(x=8),
            memory,
            TERMS,
            now=now,
            random=lambda: 0.0,
        )
        if any(release.gang.name == "next" for release in found.releases):
            break
        memory = found.memory
    assert moment == TERMS.timeout
