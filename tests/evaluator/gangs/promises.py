"""Invariants of each gang decision, by name: functions that raise AssertionError if violated."""

from collections.abc import Callable
from dataclasses import dataclass, field

from evaluator.gangs.core.podgroup import GangKey
from evaluator.gangs.core.types import (
    GangDecisions,
    GangHistory,
    GangReason,
    GangState,
    GangTimings,
)
from tests.evaluator.gangs.model import Cluster, Pod, can_place

LONG = 3600.0
"""Much longer than any rest, any turn, and any line that is held."""

Owned = tuple[GangKey, str]
"""A gang, and the owner of some of its pods."""
Ask = Callable[[GangHistory, float], GangDecisions]


@dataclass
class History:
    """What leaders have done, as one knows it who sees everything."""

    admitted: set[Owned] = field(default_factory=set)
    reservations: dict[GangKey, tuple[frozenset[str], int]] = field(default_factory=dict)
    """The pods with which each gang had its last turn, and how many of them it needed."""
    told: set[str] = field(default_factory=set)
    """Pods of gangs of which it was told that they found no nodes in time."""


@dataclass
class Decision:
    """One decision: what was to be seen of the cluster, what came of it, and what went before."""

    ask: Ask
    """What is decided of the same cluster with this memory at this time."""
    seen: Cluster
    history: History
    timings: GangTimings
    before: GangHistory
    now: float

    def __post_init__(self) -> None:
        self.groups = self.seen.groups()
        self.decisions = self.ask(self.before, self.now)
        self.known = {key for key, _ in self.history.admitted}
        self.known |= {pod.key for pod in self.seen.pods if pod.admitted is not None}
        self.free = self.seen.free()

    def released(self, *reasons: GangReason) -> set[str]:
        chosen = [one for one in self.decisions.releases if one.reason in (reasons or GangReason)]
        return {pod.name for one in chosen for pod in one.pods}

    @property
    def admitted(self) -> list[GangKey]:
        return [one.gang for one in self.decisions.releases if one.reason is GangReason.ADMITTED]

    def living(self, key: GangKey) -> list[Pod]:
        return [pod for pod in self.groups[key] if pod.living]

    def minimum(self, key: GangKey) -> int:
        return max((pod.minimum for pod in self.living(key)), default=0) or 1

    def has_quorum(self, key: GangKey) -> bool:
        """As it is of a gang that was admitted: who has done its work is not missing."""
        done = [pod for pod in self.groups[key] if pod.phase == "Succeeded"]
        return len(self.living(key)) + len(done) >= self.minimum(key)

    def missing(self, key: GangKey) -> int:
        """Pods by which it gets to its quorum."""
        at_once = self.released(GangReason.REPLACEMENT, GangReason.OVERDUE)
        going = [pod for pod in self.living(key) if not pod.gated or pod.name in at_once]
        return max(self.minimum(key) - sum(not pod.foreign for pod in going), 1)

    def going(self, key: GangKey) -> list[Pod]:
        """Pods that nothing but our gate holds."""
        at_once = self.released(GangReason.REPLACEMENT, GangReason.OVERDUE)
        return [pod for pod in self.living(key) if pod.releasable and pod.name not in at_once]

    def fits(self, key: GangKey, room: dict[str, int]) -> bool:
        return can_place(self.going(key), room, self.missing(key))

    def rank(self, key: GangKey) -> tuple[object, ...]:
        pods = self.living(key)
        priority, qos = max(pod.priority for pod in pods), max(pod.qos for pod in pods)
        return -priority, qos, self.born(key), key

    def born(self, key: GangKey) -> float:
        """Of the oldest of those that wait: a gang that runs has not waited ever since."""
        pods = self.living(key)
        return min(pod.born for pod in [pod for pod in pods if pod.gated] or pods)

    def ready(self, room: dict[str, int]) -> list[GangKey]:
        """Gangs that nobody admitted, that are complete, and that fit, of those whose pods are alike."""
        return [
            key
            for key in self.groups.keys() - self.known
            if self.going(key) and self.alike(key) and self.fits(key, room)
        ]

    def alike(self, key: GangKey) -> bool:
        """Whether its pods are: for others, deciding tries no more than a scheduler does."""
        return len({(pod.cpu, pod.where) for pod in self.living(key)}) == 1

    def aged(self, key: GangKey) -> bool:
        return self.now - self.born(key) >= self.timings.ageing

    def placing(self) -> list[Pod]:
        """Pods that were released, and could take room now; and those that are released regardless of it."""
        at_once = self.released(GangReason.REPLACEMENT, GangReason.OVERDUE)
        members = [pod for pods in self.groups.values() for pod in pods]
        loose = [pod for pod in members if pod.loose and can_place([pod], self.free)]
        return loose + [pod for pod in members if pod.name in at_once]

    def in_time(self, pod: Pod) -> bool:
        """Whether nobody has told yet of its gang that it found no nodes in time."""
        found = [one.name for one in self.groups.get(pod.key, ()) if one.loose]
        return not self.history.told.intersection(found)

    def searching(self) -> list[Pod]:
        """Pods for which kube-scheduler has not had the time yet to find nodes."""
        since = self.now - self.timings.timeout
        return [pod for pod in self.seen.pods if pod.loose and (pod.admitted or 0) > since]


def no_gang_goes_below_its_quorum(d: Decision) -> None:
    for release in d.decisions.releases:
        if release.reason is GangReason.ADMITTED:
            assert len(release.pods) >= d.missing(release.gang)
        elif release.reason is GangReason.REPLACEMENT:
            assert d.has_quorum(release.gang)


def no_replacement_is_held(d: Decision) -> None:
    for key, owner in d.history.admitted:
        # Pods without an owner have namesakes, and successors only while there is one to succeed.
        alive = owner or any(
            pod.living and pod.admitted and not pod.owner for pod in d.groups.get(key, ())
        )
        if key in d.groups and d.has_quorum(key) and alive:
            held = {pod.name for pod in d.groups[key] if pod.releasable and pod.owner == owner}
            assert held <= d.released()


def one_gang_has_its_turn_at_a_time(d: Decision) -> None:
    assert len(d.admitted) <= 1
    assert not (d.admitted and any(pod.reservation for pod in d.searching()))


def only_replacements_and_the_overdue_are_let_past_the_line(d: Decision) -> None:
    told = {(pod.key, pod.owner) for pod in d.seen.pods if pod.admitted is not None}
    owners = {pod.name: pod.owner for pod in d.seen.pods}
    for release in d.decisions.releases:
        if release.reason is GangReason.REPLACEMENT:
            found = {(release.gang, owners[pod.name]) for pod in release.pods}
            assert found <= told | d.history.admitted


def no_two_gangs_are_half_placed(d: Decision) -> None:
    """Of those that lost no pod since they were released, and of which nobody told that they found no nodes in time."""
    half = []
    for key, (names, needed) in d.history.reservations.items():
        pods = [pod for pod in d.seen.pods if pod.name in names and pod.living]
        placed = [pod for pod in pods if pod.node]
        if len(pods) == len(names) and not names & d.history.told and 0 < len(placed) < needed:
            half.append(key)
    assert len(half) <= 1


def who_is_released_fits(d: Decision) -> None:
    for key in d.admitted:
        assert d.fits(key, d.free)


def room_is_kept_for_those_that_are_released(d: Decision) -> None:
    at_once = d.released(GangReason.REPLACEMENT, GangReason.OVERDUE)
    others = [p for p in d.searching() if d.in_time(p)]
    others += [pod for pod in d.seen.pods if pod.name in at_once and not pod.foreign]
    for key in d.admitted if can_place(others, d.free) else ():
        assert can_place(others + d.going(key), d.free, len(others) + d.missing(key))


def who_has_waited_for_long_is_not_passed_over_at_once(d: Decision) -> None:
    for key in d.admitted:
        for other in d.ready(d.seen.nodes):
            if d.aged(other) and d.rank(other) < d.rank(key) and not d.fits(other, d.free):
                # The line was held in vain, for it or for another: now those that fit go.
                memory = d.decisions.memory
                tried = other in memory.reservations and memory.reservations[other].misses
                assert memory.unheld_until > d.now or tried


def who_is_more_important_goes_first(d: Decision) -> None:
    for key in d.admitted if not d.placing() else ():
        for other in d.ready(d.free):
            if d.rank(other) < d.rank(key):
                # The line was held for it in vain, and it rests.
                assert d.aged(other)
                assert other in d.before.reservations
                assert d.before.reservations[other].rests_until > d.now


def who_does_not_fit_holds_up_nobody(d: Decision) -> None:
    could = [key for key in d.groups.keys() - d.known if d.going(key) and d.fits(key, d.seen.nodes)]
    line_held = any(map(d.aged, could))
    # A gang that goes on with pods of another owner has a turn anew, for all that have no nodes.
    begun_anew = any(reservation.first for reservation in d.before.reservations.values())
    if not (d.admitted or d.searching() or d.placing() or line_held or begun_anew):
        assert not d.ready(d.free)


def only_our_gate_is_lifted(d: Decision) -> None:
    told = [pod.uid for release in d.decisions.releases for pod in release.pods]
    assert len(told) == len(set(told))
    assert d.released() <= {
        pod.name for pod in d.seen.pods if pod.living and pod.gated and not pod.native
    }


def nobody_waits_without_being_told_why(d: Decision) -> None:
    for key in d.groups:
        held = {pod.name for pod in d.living(key) if pod.gated}
        if held <= d.released():
            continue
        verdict, living, minimum = d.decisions.verdicts.get(key), len(d.living(key)), d.minimum(key)
        assert verdict is not None
        assert verdict.message
        if not (key in d.known or held & d.released()):
            assert verdict.state.waits
            assert (verdict.state is GangState.INCOMPLETE) == (living < minimum)
        if verdict.state is GangState.INCOMPLETE:
            assert f"{living} of {minimum}" in verdict.message


def who_is_said_to_be_too_large_is(d: Decision) -> None:
    for key, told in d.decisions.verdicts.items():
        if told.state is GangState.TOO_LARGE and d.alike(key):
            pods = [pod for pod in d.living(key) if not pod.foreign]
            assert not can_place(pods, d.seen.nodes, d.minimum(key))


def who_found_no_nodes_in_time_is_told_of(d: Decision) -> None:
    for key, pods in d.groups.items():
        loose = [pod for pod in pods if pod.loose and pod.admitted is not None]
        first = all(pod.reservation and pod.name not in d.history.told for pod in loose)
        if loose and first and d.now >= max(pod.admitted for pod in loose) + d.timings.timeout:
            assert key in d.decisions.timeouts


def nobody_is_held_for_longer_than_the_longest_wait(d: Decision) -> None:
    for pod in d.seen.pods:
        if pod.releasable and d.now - pod.born > d.timings.gate_max_age:
            assert pod.name in d.released()


def what_is_gone_is_forgotten(d: Decision) -> None:
    assert d.decisions.memory.reservations.keys() <= d.groups.keys()


def nothing_changes_before_the_time_that_is_named(d: Decision) -> None:
    assert d.decisions.again > d.now
    if not d.decisions.releases:
        just_before = max(min(d.decisions.again, d.now + LONG) - 0.01, d.now)
        found = d.ask(d.decisions.memory, just_before)
        assert (found.releases, found.timeouts) == ((), ())


def a_leader_that_does_not_see_its_work_yet_lets_nobody_else_go(d: Decision) -> None:
    if d.decisions.releases:
        memory = d.decisions.memory
        for release in d.decisions.releases:
            memory = memory.released(release, now=d.now)
        found = d.ask(memory, d.now + 0.05)
        gone = {release.gang for release in d.decisions.releases}
        assert {one.gang for one in found.releases if one.reason is GangReason.ADMITTED} <= gone


def every_gate_of_a_gang_that_fits_was_lifted(d: Decision) -> None:
    """In the end: nothing has happened for long."""
    assert not d.ready(d.free)


PROMISES = (
    no_gang_goes_below_its_quorum,
    no_replacement_is_held,
    one_gang_has_its_turn_at_a_time,
    no_two_gangs_are_half_placed,
    only_replacements_and_the_overdue_are_let_past_the_line,
    who_is_released_fits,
    room_is_kept_for_those_that_are_released,
    who_has_waited_for_long_is_not_passed_over_at_once,
    who_is_more_important_goes_first,
    who_does_not_fit_holds_up_nobody,
    only_our_gate_is_lifted,
    nobody_waits_without_being_told_why,
    who_is_said_to_be_too_large_is,
    who_found_no_nodes_in_time_is_told_of,
    nobody_is_held_for_longer_than_the_longest_wait,
    what_is_gone_is_forgotten,
    nothing_changes_before_the_time_that_is_named,
    a_leader_that_does_not_see_its_work_yet_lets_nobody_else_go,
)
"""Of each decision."""
IN_THE_END = every_gate_of_a_gang_that_fits_was_lifted
"""Of the last one."""
