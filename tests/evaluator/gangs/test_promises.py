"""Each invariant of gangs is violated by some faulty decide() and detected."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from evaluator.gangs.core.decide import decide
from evaluator.gangs.core.podgroup import PodGroup, about
from evaluator.gangs.core.types import GangReason, GangState
from evaluator.model.gang_membership import Membership, Owner, QoS
from evaluator.model.pod_record import PodRecord
from tests.evaluator.gangs import promises
from tests.evaluator.gangs.life import Life
from tests.evaluator.gangs.model import ANYWHERE

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
"""The same lives each time, and no search for the shortest of those that break a promise."""


def saying(pod: PodRecord, **other: object) -> PodRecord:
    """The same pod that says something else of its gang."""
    told = {name: getattr(about(pod), name) for name in Membership.__struct_fields__}
    fields = {name: getattr(pod, name) for name in PodRecord.__struct_fields__}
    return PodRecord(**fields | {"membership": Membership(**told | other)})


def changed(gangs, change):
    """The same gangs of pods that say something else."""
    return [PodGroup(one.key, tuple(map(change, one.pods)), one.count_all) for one in gangs]


def one_pod_too_few_is_enough(gangs, *more, **named):
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


def nobody_is_waited_for(gangs, capacity, before, timings, **named):
    reservations = {
        key: reservation._replace(first=False) for key, reservation in before.reservations.items()
    }
    return decide(
        gangs, capacity, replace(before, reservations=reservations, fresh=False), timings, **named
    )


def two_go_at_a_time(gangs, capacity, before, timings, **named):
    made = decide(gangs, capacity, before, timings, **named)
    gone = {one.gang for one in made.releases}
    others = decide(
        [one for one in gangs if one.key not in gone], capacity, before, timings, **named
    )
    return replace(made, releases=made.releases + others.releases)


def nodes_are_taken_for_empty(gangs, capacity, *more, **named):
    return decide(gangs, replace(capacity, free=capacity.whole), *more, **named)


def the_least_important_goes_first(gangs, *more, **named):
    turned = changed(gangs, lambda pod: saying(pod, priority=-about(pod).priority))
    return decide(turned, *more, **named)


def the_first_goes_or_nobody(gangs, capacity, before, timings, **named):
    made = decide(gangs, capacity, before, timings, **named)
    waiting = sorted(
        (one for one in gangs if one.releasable and one.complete), key=lambda g: g.rank
    )
    first = {one.key for one in waiting[:1]}
    kept = [r for r in made.releases if r.reason is not GangReason.ADMITTED or r.gang in first]
    return replace(made, releases=tuple(kept))


def gates_of_others_count_for_nothing(gangs, *more, **named):
    return decide(changed(gangs, lambda pod: saying(pod, native=False, gated=True)), *more, **named)


def some_are_not_told(*asked, **named):
    made = decide(*asked, **named)
    told = {key: one for key, one in made.verdicts.items() if one.state is not GangState.INCOMPLETE}
    return replace(made, verdicts=told)


def whoever_waits_for_room_is_too_large(*asked, **named):
    made = decide(*asked, **named)
    told = {
        key: replace(one, state=GangState.TOO_LARGE)
        if one.state is GangState.WAITS_FOR_ROOM
        else one
        for key, one in made.verdicts.items()
    }
    return replace(made, verdicts=told)


def timeouts_are_not_told(*asked, **named):
    return replace(decide(*asked, **named), timeouts=())


def nobody_is_overdue(gangs, capacity, before, timings, **named):
    return decide(gangs, capacity, before, replace(timings, gate_max_age=math.inf), **named)


def turns_are_kept_for_ever(gangs, capacity, before, *more, **named):
    made = decide(gangs, capacity, before, *more, **named)
    reservations = {**before.reservations, **made.memory.reservations}
    return replace(made, memory=replace(made.memory, reservations=reservations))


def no_time_is_named(*asked, **named):
    return replace(decide(*asked, **named), again=math.inf)


def whoever_was_admitted_is_left_out(gangs, capacity, before, *more, **named):
    others = [one for one in gangs if one.key not in before.admitted]
    return decide(others, capacity, before, *more, **named)


def pods_of_other_owners_are_replacements(gangs, *more, **named):
    return decide(
        changed(gangs, lambda pod: saying(pod, owner=Owner("Job", "x", "x"))), *more, **named
    )


def no_room_is_kept(gangs, capacity, before, *more, **named):
    """And so nobody has a turn either."""
    others = changed(gangs, lambda pod: pod if pod.node else saying(pod, admitted=None))
    return decide(others, capacity, replace(before, fresh=False), *more, **named)


def nobody_ages(gangs, capacity, before, timings, **named):
    return decide(gangs, capacity, before, replace(timings, ageing=math.inf), **named)


def green_gangs_never_go(*asked, **named):
    made = decide(*asked, **named)
    kept = [one for one in made.releases if one.gang.name != "green"]
    return replace(made, releases=tuple(kept))


@pytest.mark.parametrize(
    ("promise", "decider"),
    [
        (promises.no_gang_goes_below_its_quorum, one_pod_too_few_is_enough),
        (promises.one_gang_has_its_turn_at_a_time, nobody_is_waited_for),
        (promises.one_gang_has_its_turn_at_a_time, two_go_at_a_time),
        (promises.room_is_kept_for_those_that_are_released, no_room_is_kept),
        (promises.who_is_released_fits, nodes_are_taken_for_empty),
        (promises.who_is_more_important_goes_first, the_least_important_goes_first),
        (promises.who_does_not_fit_holds_up_nobody, the_first_goes_or_nobody),
        (promises.only_our_gate_is_lifted, gates_of_others_count_for_nothing),
        (promises.nobody_waits_without_being_told_why, some_are_not_told),
        (promises.who_is_said_to_be_too_large_is, whoever_waits_for_room_is_too_large),
        (promises.who_found_no_nodes_in_time_is_told_of, timeouts_are_not_told),
        (promises.nobody_is_held_for_longer_than_the_longest_wait, nobody_is_overdue),
        (promises.what_is_gone_is_forgotten, turns_are_kept_for_ever),
        (promises.nothing_changes_before_the_time_that_is_named, no_time_is_named),
        (
            promises.a_leader_that_does_not_see_its_work_yet_lets_nobody_else_go,
            whoever_was_admitted_is_left_out,
        ),
        (promises.every_gate_of_a_gang_that_fits_was_lifted, green_gangs_never_go),
    ],
)
def test_faulty_decide_function_is_found(promise, decider):
    with pytest.raises(AssertionError) as found:
        run_state_machine_as_test(life_with(decider, promise), settings=FOUND)
    assert promise.__name__ in {entry.name for entry in found.traceback}


def life_with(decider, promise):
    """Of which one promise is asked."""
    return type("Broken", (Life,), {"decider": staticmethod(decider), "promises": (promise,)})


def job(life, group, replicas, **more):
    said = {"minimum": replicas, "priority": 0, "qos": QoS.BURSTABLE, "cpu": 1, "where": ANYWHERE}
    said |= {"controlled": True, "all_at_once": True, "rare": {}}
    life.job_comes(group=group, replicas=replicas, **said | more)


def pods_of_two_gangs_come_by_turns(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    for group in ("red", "green"):
        job(life, group, 3, all_at_once=False)
    for which in (0, 1, 0, 1):
        life.controller_makes_what_is_missing(which=which, most=1)
    life.leader_decides(lifted=99)
    life.scheduler_works()
    life.leader_decides(lifted=99)


def small_pods_come_while_a_gang_waits_for_room(life):
    life.begin(nodes=[3], longest_wait=math.inf)
    life.pod_of_somebody_else_comes(cpu=2)
    life.scheduler_works()
    job(life, "red", 2)
    life.time_passes(seconds=310.0)
    job(life, "", 1)
    life.leader_decides(lifted=99)


def one_of_three_goes_before_its_turn(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    job(life, "red", 3)
    life.pod_ends(which=0, how="leaving")
    life.leader_decides(lifted=99)


def one_of_three_is_lost_and_replaced(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    job(life, "red", 3)
    life.leader_decides(lifted=99)
    life.scheduler_works()
    life.pod_ends(which=0, how="gone")
    life.controller_makes_what_is_missing(which=0, most=1)
    life.leader_decides(lifted=99)


def all_are_replaced_and_somebody_else_takes_the_room(life):
    life.begin(nodes=[2], longest_wait=math.inf)
    job(life, "red", 2)
    life.leader_decides(lifted=99)
    life.scheduler_works()
    life.controller_replaces_all(which=0)
    life.pod_of_somebody_else_comes(cpu=2)
    life.scheduler_works()
    life.leader_decides(lifted=99)


def another_job_of_the_same_group_comes(life):
    life.begin(nodes=[4], longest_wait=math.inf)
    job(life, "red", 2)
    life.leader_decides(lifted=99)
    life.scheduler_works()
    job(life, "red", 2)
    life.leader_decides(lifted=99)


PLAYED = [
    (
        promises.no_gang_goes_below_its_quorum,
        finished_pods_count,
        one_of_three_goes_before_its_turn,
    ),
    (promises.no_replacement_is_held, replacements_wait, one_of_three_is_lost_and_replaced),
    (
        promises.no_replacement_is_held,
        admissions_are_forgotten,
        all_are_replaced_and_somebody_else_takes_the_room,
    ),
    (
        promises.only_replacements_and_the_overdue_are_let_past_the_line,
        pods_of_other_owners_are_replacements,
        another_job_of_the_same_group_comes,
    ),
    (
        promises.no_two_gangs_are_half_placed,
        two_go_at_a_time,
        pods_of_two_gangs_come_by_turns,
    ),
    (
        promises.who_has_waited_for_long_is_not_passed_over_at_once,
        nobody_ages,
        small_pods_come_while_a_gang_waits_for_room,
    ),
]
"""What would have to be played for long until it came about by chance."""


@pytest.mark.parametrize(("promise", "decider", "play"), PLAYED)
def test_faulty_decide_function_is_found_in_a_simulation(promise, decider, play):
    with pytest.raises(AssertionError) as found:
        play(life_with(decider, promise)())
    assert found.traceback[-1].name == promise.__name__
    play(Life())


def test_each_invariant_is_violated_by_a_faulty_decide_function():
    [mark] = test_faulty_decide_function_is_found.pytestmark
    broken = {promise for promise, _ in mark.args[1]} | {promise for promise, _, _ in PLAYED}
    assert broken == {*promises.PROMISES, promises.IN_THE_END}
