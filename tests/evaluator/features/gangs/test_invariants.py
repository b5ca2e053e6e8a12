"""Each invariant of gangs is violated by some faulty decide() and detected."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.membership import Membership, Owner, QoS
from evaluator.features.gangs.core.podgroup import PodGroup, about
from evaluator.features.gangs.core.types import GangReason, GangState
from tests.evaluator.features.gangs import invariants
from tests.evaluator.features.gangs.model import ANYWHERE
from tests.evaluator.features.gangs.state_machine import GangMachine

FOUND = settings(
    max_examples=3000,
    stateful_step_count=20,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
"""Runs without shrinking, from a fixed seed; their number also depends on the constants of imported modules, which Hypothesis tries."""


def saying(pod: PodRecord, **other: object) -> PodRecord:
    """The same pod with other gang fields."""
    told = {name: getattr(about(pod), name) for name in Membership.__struct_fields__}
    fields = {name: getattr(pod, name) for name in PodRecord.__struct_fields__}
    return PodRecord(**fields | {"extra": Membership(**told | other)})


def changed(gangs, change):
    """The same gangs with changed pods."""
    return [PodGroup(one.key, tuple(map(change, one.pods)), one.count_all) for one in gangs]


def quorum_minus_one_suffices(gangs, *more, **named):
    fewer = changed(gangs, lambda p: saying(p, minimum=max(about(p).minimum - 1, 0)))
    return decide(fewer, *more, **named)


def finished_pods_count(gangs, *more, **named):
    return decide([replace(one, count_all=True) for one in gangs], *more, **named)


def replacements_wait(*asked, **named):
    made = decide(*asked, **named)
    kept = tuple(one for one in made.releases if one.reason is not GangReason.REPLACEMENT)
    return replace(made, releases=kept)


def admissions_are_forgotten(gangs, capacity, before, *more, **named):
    return decide(gangs, capacity, replace(before, admitted={}), *more, **named)


def reservations_are_ignored(gangs, capacity, before, timings, **named):
    reservations = {
        key: reservation._replace(first=False) for key, reservation in before.reservations.items()
    }
    return decide(
        gangs, capacity, replace(before, reservations=reservations, fresh=False), timings, **named
    )


def two_gangs_are_released_at_once(gangs, capacity, before, timings, **named):
    made = decide(gangs, capacity, before, timings, **named)
    gone = {one.gang for one in made.releases}
    others = decide(
        [one for one in gangs if one.key not in gone], capacity, before, timings, **named
    )
    return replace(made, releases=made.releases + others.releases)


def nodes_count_as_empty(gangs, capacity, *more, **named):
    return decide(gangs, replace(capacity, free=capacity.whole), *more, **named)


def lowest_priority_goes_first(gangs, *more, **named):
    turned = changed(gangs, lambda pod: saying(pod, priority=-about(pod).priority))
    return decide(turned, *more, **named)


def only_the_first_gang_is_released(gangs, capacity, before, timings, **named):
    made = decide(gangs, capacity, before, timings, **named)
    waiting = sorted(
        (one for one in gangs if one.releasable and one.complete), key=lambda g: g.rank
    )
    first = {one.key for one in waiting[:1]}
    kept = [r for r in made.releases if r.reason is not GangReason.ADMITTED or r.gang in first]
    return replace(made, releases=tuple(kept))


def foreign_gates_are_ignored(gangs, *more, **named):
    return decide(changed(gangs, lambda pod: saying(pod, native=False, gated=True)), *more, **named)


def incomplete_gangs_have_no_verdict(*asked, **named):
    made = decide(*asked, **named)
    told = {key: one for key, one in made.verdicts.items() if one.state is not GangState.INCOMPLETE}
    return replace(made, verdicts=told)


def waiting_for_capacity_is_too_large(*asked, **named):
    made = decide(*asked, **named)
    told = {
        key: replace(one, state=GangState.TOO_LARGE)
        if one.state is GangState.WAITS_FOR_ROOM
        else one
        for key, one in made.verdicts.items()
    }
    return replace(made, verdicts=told)


def timeouts_are_not_reported(*asked, **named):
    return replace(decide(*asked, **named), timeouts=())


def no_pod_is_overdue(gangs, capacity, before, timings, **named):
    return decide(gangs, capacity, before, replace(timings, gate_max_age=math.inf), **named)


def reservations_are_kept_forever(gangs, capacity, before, *more, **named):
    made = decide(gangs, capacity, before, *more, **named)
    reservations = {**before.reservations, **made.memory.reservations}
    return replace(made, memory=replace(made.memory, reservations=reservations))


def no_next_decision_time(*asked, **named):
    return replace(decide(*asked, **named), again=math.inf)


def admitted_gangs_are_ignored(gangs, capacity, before, *more, **named):
    others = [one for one in gangs if one.key not in before.admitted]
    return decide(others, capacity, before, *more, **named)


def pods_of_other_owners_are_replacements(gangs, *more, **named):
    return decide(
        changed(gangs, lambda pod: saying(pod, owner=Owner("Job", "x", "x"))), *more, **named
    )


def no_capacity_is_reserved(gangs, capacity, before, *more, **named):
    """Consequently there are no reservations either."""
    others = changed(gangs, lambda pod: pod if pod.node else saying(pod, admitted=None))
    return decide(others, capacity, replace(before, fresh=False), *more, **named)


def no_gang_ages(gangs, capacity, before, timings, **named):
    return decide(gangs, capacity, before, replace(timings, ageing=math.inf), **named)


def green_gangs_are_never_released(*asked, **named):
    made = decide(*asked, **named)
    kept = [one for one in made.releases if one.gang.name != "green"]
    return replace(made, releases=tuple(kept))


@pytest.mark.parametrize(
    ("promise", "decider"),
    [
        (invariants.quorum_is_kept, quorum_minus_one_suffices),
        (invariants.one_reservation_at_a_time, reservations_are_ignored),
        (invariants.one_reservation_at_a_time, two_gangs_are_released_at_once),
        (invariants.released_gang_fits, nodes_count_as_empty),
        (invariants.higher_priority_goes_first, lowest_priority_goes_first),
        (invariants.only_own_gates_are_lifted, foreign_gates_are_ignored),
        (invariants.each_waiting_gang_has_a_verdict, incomplete_gangs_have_no_verdict),
        (invariants.too_large_gang_cannot_be_placed, waiting_for_capacity_is_too_large),
        (invariants.timeouts_are_reported, timeouts_are_not_reported),
        (invariants.deleted_gangs_are_forgotten, reservations_are_kept_forever),
        (invariants.no_release_before_the_next_decision_time, no_next_decision_time),
        (
            invariants.no_admission_before_own_writes_are_seen,
            admitted_gangs_are_ignored,
        ),
    ],
)
def test_faulty_decide_function_is_found(promise, decider):
    with pytest.raises(AssertionError) as found:
        run_state_machine_as_test(machine_with(decider, promise), settings=FOUND)
    assert promise.__name__ in {entry.name for entry in found.traceback}


def machine_with(decider, promise):
    """A state machine that checks one invariant."""
    return type(
        "Broken", (GangMachine,), {"decider": staticmethod(decider), "promises": (promise,)}
    )


def job(life, group, replicas, **more):
    said = {"minimum": replicas, "priority": 0, "qos": QoS.BURSTABLE, "cpu": 1, "where": ANYWHERE}
    said |= {"controlled": True, "all_at_once": True, "rare": {}}
    life.create_job(group=group, replicas=replicas, **said | more)


def pods_of_two_gangs_are_created_alternately(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    for group in ("red", "green"):
        job(life, group, 3, all_at_once=False)
    for which in (0, 1, 0, 1):
        life.controller_replaces_missing_pods(which=which, most=1)
    life.run_leader(lifted=99)
    life.run_scheduler()
    life.run_leader(lifted=99)


def small_pods_arrive_while_a_gang_waits_for_capacity(life):
    life.begin(nodes=[3], longest_wait=math.inf)
    life.create_other_pod(cpu=2)
    life.run_scheduler()
    job(life, "red", 2)
    life.advance_time(seconds=310.0)
    job(life, "", 1)
    life.run_leader(lifted=99)


def one_of_three_is_deleted_before_release(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    job(life, "red", 3)
    life.end_pod(which=0, how="leaving")
    life.run_leader(lifted=99)


def one_of_three_is_lost_and_replaced(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    job(life, "red", 3)
    life.run_leader(lifted=99)
    life.run_scheduler()
    life.end_pod(which=0, how="gone")
    life.controller_replaces_missing_pods(which=0, most=1)
    life.run_leader(lifted=99)


def all_are_replaced_while_another_pod_takes_the_capacity(life):
    life.begin(nodes=[2], longest_wait=math.inf)
    job(life, "red", 2)
    life.run_leader(lifted=99)
    life.run_scheduler()
    life.controller_replaces_all(which=0)
    life.create_other_pod(cpu=2)
    life.run_scheduler()
    life.run_leader(lifted=99)


def second_job_of_the_same_group_starts(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    job(life, "red", 2)
    life.run_leader(lifted=99)
    life.run_scheduler()
    job(life, "red", 2)
    life.run_leader(lifted=99)


def too_large_gang_arrives_before_a_small_one(life):
    life.begin(nodes=[2], longest_wait=math.inf)
    job(life, "red", 3)
    life.advance_time(seconds=1.0)
    job(life, "green", 2)
    life.run_leader(lifted=99)


def too_large_gang_waits_for_too_long(life):
    life.begin(nodes=[2], longest_wait=100.0)
    job(life, "red", 3)
    life.advance_time(seconds=310.0)
    life.run_leader(lifted=99)


def gang_fits(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    job(life, "green", 2)
    life.settle_down()


def leader_changes_before_released_pods_are_placed(life):
    life.begin(nodes=[3], longest_wait=math.inf)
    job(life, "red", 2)
    life.run_leader(lifted=99)
    life.change_leader()
    job(life, "green", 2)
    life.run_leader(lifted=99)


PLAYED = [
    (
        invariants.unfitting_gang_delays_no_other,
        only_the_first_gang_is_released,
        too_large_gang_arrives_before_a_small_one,
    ),
    (
        invariants.overdue_pods_are_released,
        no_pod_is_overdue,
        too_large_gang_waits_for_too_long,
    ),
    (invariants.every_fitting_gang_was_released, green_gangs_are_never_released, gang_fits),
    (
        invariants.capacity_is_reserved_for_released_pods,
        no_capacity_is_reserved,
        leader_changes_before_released_pods_are_placed,
    ),
    (
        invariants.quorum_is_kept,
        finished_pods_count,
        one_of_three_is_deleted_before_release,
    ),
    (invariants.replacements_are_released, replacements_wait, one_of_three_is_lost_and_replaced),
    (
        invariants.replacements_are_released,
        admissions_are_forgotten,
        all_are_replaced_while_another_pod_takes_the_capacity,
    ),
    (
        invariants.only_replacements_and_overdue_pods_bypass_the_queue,
        pods_of_other_owners_are_replacements,
        second_job_of_the_same_group_starts,
    ),
    (
        invariants.no_two_gangs_are_half_placed,
        two_gangs_are_released_at_once,
        pods_of_two_gangs_are_created_alternately,
    ),
    (
        invariants.aged_gang_is_not_passed_over_at_once,
        no_gang_ages,
        small_pods_arrive_while_a_gang_waits_for_capacity,
    ),
]
"""Scenarios that random runs reach rarely or late."""


@pytest.mark.parametrize(("promise", "decider", "play"), PLAYED)
def test_faulty_decide_function_is_found_in_a_simulation(promise, decider, play):
    with pytest.raises(AssertionError) as found:
        play(machine_with(decider, promise)())
    assert found.traceback[-1].name == promise.__name__
    play(GangMachine())


def test_each_invariant_is_violated_by_a_faulty_decide_function():
    [mark] = test_faulty_decide_function_is_found.pytestmark
    broken = {promise for promise, _ in mark.args[1]} | {promise for promise, _, _ in PLAYED}
    assert broken == {*invariants.INVARIANTS, invariants.FINALLY}
