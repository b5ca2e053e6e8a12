"""Invariants of each gang decision, by name: functions that raise AssertionError if violated."""

from collections.abc import Callable
from dataclasses import dataclass, field

from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import (
    GangDecisions,
    GangHistory,
    GangReason,
    GangState,
    GangTimings,
)
from tests.evaluator.features.gangs.model import Cluster, Pod, can_place

LONG = 3600.0
"""Much longer than any backoff, reservation, or blocked queue."""

Owned = tuple[GangKey, str]
"""A gang, and the owner of some of its pods."""
Ask = Callable[[GangHistory, float], GangDecisions]


@dataclass
class History:
    """What leaders have done, as known to an omniscient observer."""

    admitted: set[Owned] = field(default_factory=set)
    reservations: dict[GangKey, tuple[frozenset[str], int]] = field(default_factory=dict)
    """The pods with which each gang had its last reservation, and the number needed."""
    told: set[str] = field(default_factory=set)
    """Pods of gangs with a reported timeout."""


@dataclass
class Decision:
    """One decision with the observed cluster, its result, and the history."""

    ask: Ask
    """decide() on the same cluster with this history at this time."""
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
        """As for an admitted gang: succeeded pods are not missing."""
        done = [pod for pod in self.groups[key] if pod.phase == "Succeeded"]
        return len(self.living(key)) + len(done) >= self.minimum(key)

    def missing(self, key: GangKey) -> int:
        """The number of pods missing for the quorum."""
        at_once = self.released(GangReason.REPLACEMENT, GangReason.OVERDUE)
        going = [pod for pod in self.living(key) if not pod.gated or pod.name in at_once]
        return max(self.minimum(key) - sum(not pod.foreign for pod in going), 1)

    def going(self, key: GangKey) -> list[Pod]:
        """Pods that only our gate holds."""
        at_once = self.released(GangReason.REPLACEMENT, GangReason.OVERDUE)
        return [pod for pod in self.living(key) if pod.releasable and pod.name not in at_once]

    def fits(self, key: GangKey, room: dict[str, int]) -> bool:
        return can_place(self.going(key), room, self.missing(key))

    def rank(self, key: GangKey) -> tuple[object, ...]:
        pods = self.living(key)
        priority, qos = max(pod.priority for pod in pods), max(pod.qos for pod in pods)
        return -priority, qos, self.born(key), key

    def born(self, key: GangKey) -> float:
        """The creation time of the oldest waiting pod: a running gang has not waited since its first pod."""
        pods = self.living(key)
        return min(pod.born for pod in [pod for pod in pods if pod.gated] or pods)

    def ready(self, room: dict[str, int]) -> list[GangKey]:
        """Complete, unadmitted gangs of equal pods that fit."""
        return [
            key
            for key in self.groups.keys() - self.known
            if self.going(key) and self.alike(key) and self.fits(key, room)
        ]

    def alike(self, key: GangKey) -> bool:
        """Whether its pods are equal; for others decide() is a heuristic, as a scheduler is."""
        return len({(pod.cpu, pod.where) for pod in self.living(key)}) == 1

    def aged(self, key: GangKey) -> bool:
        return self.now - self.born(key) >= self.timings.ageing

    def placing(self) -> list[Pod]:
        """Released pods that could take capacity now, and those released regardless of it."""
        at_once = self.released(GangReason.REPLACEMENT, GangReason.OVERDUE)
        members = [pod for pods in self.groups.values() for pod in pods]
        loose = [pod for pod in members if pod.loose and can_place([pod], self.free)]
        return loose + [pod for pod in members if pod.name in at_once]

    def in_time(self, pod: Pod) -> bool:
        """Whether no timeout of its gang was reported yet."""
        found = [one.name for one in self.groups.get(pod.key, ()) if one.loose]
        return not self.history.told.intersection(found)

    def searching(self) -> list[Pod]:
        """Pods that kube-scheduler has not had time to place."""
        since = self.now - self.timings.timeout
        return [pod for pod in self.seen.pods if pod.loose and (pod.admitted or 0) > since]


def quorum_is_kept(d: Decision) -> None:
    for release in d.decisions.releases:
        if release.reason is GangReason.ADMITTED:
            assert len(release.pods) >= d.missing(release.gang)
        elif release.reason is GangReason.REPLACEMENT:
            assert d.has_quorum(release.gang)


def replacements_are_released(d: Decision) -> None:
    for key, owner in d.history.admitted:
        # Pods without an owner are replaced by name, and have successors only while one of them lives.
        alive = owner or any(
            pod.living and pod.admitted and not pod.owner for pod in d.groups.get(key, ())
        )
        if key in d.groups and d.has_quorum(key) and alive:
            held = {pod.name for pod in d.groups[key] if pod.releasable and pod.owner == owner}
            assert held <= d.released()


def one_reservation_at_a_time(d: Decision) -> None:
    assert len(d.admitted) <= 1
    assert not (d.admitted and any(pod.reservation for pod in d.searching()))


def only_replacements_and_overdue_pods_bypass_the_queue(d: Decision) -> None:
    told = {(pod.key, pod.owner) for pod in d.seen.pods if pod.admitted is not None}
    owners = {pod.name: pod.owner for pod in d.seen.pods}
    for release in d.decisions.releases:
        if release.reason is GangReason.REPLACEMENT:
            found = {(release.gang, owners[pod.name]) for pod in release.pods}
            assert found <= told | d.history.admitted


def no_two_gangs_are_half_placed(d: Decision) -> None:
    """Considers gangs that lost no pod since their release and whose timeout was not reported."""
    half = []
    for key, (names, needed) in d.history.reservations.items():
        pods = [pod for pod in d.seen.pods if pod.name in names and pod.living]
        placed = [pod for pod in pods if pod.node]
        if len(pods) == len(names) and not names & d.history.told and 0 < len(placed) < needed:
            half.append(key)
    assert len(half) <= 1


def released_gang_fits(d: Decision) -> None:
    for key in d.admitted:
        assert d.fits(key, d.free)


def capacity_is_reserved_for_released_pods(d: Decision) -> None:
    at_once = d.released(GangReason.REPLACEMENT, GangReason.OVERDUE)
    others = [p for p in d.searching() if d.in_time(p)]
    others += [pod for pod in d.seen.pods if pod.name in at_once and not pod.foreign]
    for key in d.admitted if can_place(others, d.free) else ():
        assert can_place(others + d.going(key), d.free, len(others) + d.missing(key))


def aged_gang_is_not_passed_over_at_once(d: Decision) -> None:
    for key in d.admitted:
        for other in d.ready(d.seen.nodes):
            if d.aged(other) and d.rank(other) < d.rank(key) and not d.fits(other, d.free):
                # The queue was blocked in vain, for it or for another: now fitting gangs go.
                memory = d.decisions.memory
                tried = other in memory.reservations and memory.reservations[other].misses
                assert memory.unheld_until > d.now or tried


def higher_priority_goes_first(d: Decision) -> None:
    for key in d.admitted if not d.placing() else ():
        for other in d.ready(d.free):
            if d.rank(other) < d.rank(key):
                # The queue was blocked for it in vain, and it backs off.
                assert d.aged(other)
                assert other in d.before.reservations
                assert d.before.reservations[other].rests_until > d.now


def unfitting_gang_delays_no_other(d: Decision) -> None:
    could = [key for key in d.groups.keys() - d.known if d.going(key) and d.fits(key, d.seen.nodes)]
    line_held = any(map(d.aged, could))
    # A gang that continues with pods of another owner has a new reservation for all unbound pods.
    begun_anew = any(reservation.first for reservation in d.before.reservations.values())
    if not (d.admitted or d.searching() or d.placing() or line_held or begun_anew):
        assert not d.ready(d.free)


def only_own_gates_are_lifted(d: Decision) -> None:
    told = [pod.uid for release in d.decisions.releases for pod in release.pods]
    assert len(told) == len(set(told))
    assert d.released() <= {
        pod.name for pod in d.seen.pods if pod.living and pod.gated and not pod.native
    }


def each_waiting_gang_has_a_verdict(d: Decision) -> None:
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


def too_large_gang_cannot_be_placed(d: Decision) -> None:
    for key, told in d.decisions.verdicts.items():
        if told.state is GangState.TOO_LARGE and d.alike(key):
            pods = [pod for pod in d.living(key) if not pod.foreign]
            assert not can_place(pods, d.seen.nodes, d.minimum(key))


def timeouts_are_reported(d: Decision) -> None:
    for key, pods in d.groups.items():
        loose = [pod for pod in pods if pod.loose and pod.admitted is not None]
        first = all(pod.reservation and pod.name not in d.history.told for pod in loose)
        if loose and first and d.now >= max(pod.admitted for pod in loose) + d.timings.timeout:
            assert key in d.decisions.timeouts


def overdue_pods_are_released(d: Decision) -> None:
    for pod in d.seen.pods:
        if pod.releasable and d.now - pod.born > d.timings.gate_max_age:
            assert pod.name in d.released()


def deleted_gangs_are_forgotten(d: Decision) -> None:
    assert d.decisions.memory.reservations.keys() <= d.groups.keys()


def no_release_before_the_next_decision_time(d: Decision) -> None:
    assert d.decisions.again > d.now
    if not d.decisions.releases:
        just_before = max(min(d.decisions.again, d.now + LONG) - 0.01, d.now)
        found = d.ask(d.decisions.memory, just_before)
        assert (found.releases, found.timeouts) == ((), ())


def no_admission_before_own_writes_are_seen(d: Decision) -> None:
    if d.decisions.releases:
        memory = d.decisions.memory
        for release in d.decisions.releases:
            memory = memory.released(release, now=d.now)
        found = d.ask(memory, d.now + 0.05)
        gone = {release.gang for release in d.decisions.releases}
        assert {one.gang for one in found.releases if one.reason is GangReason.ADMITTED} <= gone


def every_fitting_gang_was_released(d: Decision) -> None:
    """After a long time without events."""
    assert not d.ready(d.free)


INVARIANTS = (
    quorum_is_kept,
    replacements_are_released,
    one_reservation_at_a_time,
    no_two_gangs_are_half_placed,
    only_replacements_and_overdue_pods_bypass_the_queue,
    released_gang_fits,
    capacity_is_reserved_for_released_pods,
    aged_gang_is_not_passed_over_at_once,
    higher_priority_goes_first,
    unfitting_gang_delays_no_other,
    only_own_gates_are_lifted,
    each_waiting_gang_has_a_verdict,
    too_large_gang_cannot_be_placed,
    timeouts_are_reported,
    overdue_pods_are_released,
    deleted_gangs_are_forgotten,
    no_release_before_the_next_decision_time,
    no_admission_before_own_writes_are_seen,
)
"""Checked for each decision."""
FINALLY = every_fitting_gang_was_released
"""Checked for the last decision."""
