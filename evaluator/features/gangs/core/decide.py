"""decide(): which gates to remove now, and a verdict on every gang. No I/O, no clock; randomness is passed in.

kube-scheduler orders ungated pods by `spec.priority`, then by when it first saw them, not by our queue. So one gang is released
at a time; the next follows when kube-scheduler has found nodes for all of it, or after a timeout.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core import messages
from evaluator.features.gangs.core.membership import shape, shapes
from evaluator.features.gangs.core.packing import Capacity, Packing, Shortage
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup, about
from evaluator.features.gangs.core.reservations import Reservations
from evaluator.features.gangs.core.types import (
    GangDecisions,
    GangHistory,
    GangReason,
    GangRelease,
    GangState,
    GangTimings,
    GangVerdict,
)

_MOST_GONE = 1000
"""Admitted gangs remembered without any pods: their controllers may be about to replace all of them."""
_MOST_OWNERS = 100
"""Owners of one gang remembered without pods of theirs: a CronJob creates a new Job each time."""


def decide(
    gangs: Iterable[PodGroup],
    capacity: Capacity,
    before: GangHistory,
    timings: GangTimings,
    *,
    now: float,
    random: Callable[[], float],
) -> GangDecisions:
    """Return the decision on all gangs, given the capacity of nodes and the history of earlier decisions.

    `random` returns numbers in [0, 1) for jitter. Record executed releases with `GangHistory.released()`.
    """
    steps = deciding(gangs, capacity, before, timings, now=now, random=random)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            decisions: GangDecisions = done.value
            return decisions


def deciding(
    gangs: Iterable[PodGroup],
    capacity: Capacity,
    before: GangHistory,
    timings: GangTimings,
    *,
    now: float,
    random: Callable[[], float],
    guard: Guard = UNGUARDED,
) -> Generator[None, None, GangDecisions]:
    """Run decide() in steps that yield to the event loop. The set of gangs is fixed at the first step.

    `guard` takes what the decision on one gang raises: it waits, without a verdict.
    """
    cycle = _Cycle(list(gangs), capacity, before, timings, now=now, random=random, guard=guard)
    yield
    return (yield from cycle.decisions())


class _Cycle:
    """The state of one decision."""

    def __init__(
        self,
        gangs: list[PodGroup],
        capacity: Capacity,
        before: GangHistory,
        timings: GangTimings,
        *,
        now: float,
        random: Callable[[], float],
        guard: Guard,
    ) -> None:
        self._guard = guard
        self._gangs = gangs
        self._admitted = _admissions(gangs, before)
        self._timings = timings
        self._now = now
        self._reservations = Reservations(before, timings, now=now, random=random)
        self._packing = Packing(capacity)
        self._empty = Packing(capacity, empty=True)
        self._ungate_failures = {
            gang.key: failure
            for gang in gangs
            if (failure := before.ungate_failures.get(gang.key)) and gang.gated
        }
        self._overdue: set[str] = set()
        self._verdicts: dict[GangKey, GangVerdict] = {}
        self._releases: list[GangRelease] = []
        self._again = math.inf

    def decisions(self) -> Generator[None, None, GangDecisions]:
        waiting = []
        for gang in self._gangs:
            none: tuple[PodRecord, ...] = ()
            if pods := self._guard.attempt(str(gang.key), partial(self._look, gang), none):
                waiting.append((gang, pods))
            self._rest(str(gang.key))
            yield
        waiting.sort(key=lambda entry: entry[0].rank)
        if waiting:
            yield from self._go_through(waiting)
        return GangDecisions(
            self._verdicts,
            tuple(self._releases),
            tuple(self._timeouts()),
            GangHistory(
                self._admitted,
                self._reservations.kept(self._verdicts),
                self._ungate_failures,
                self._reservations.unheld_until,
                self._reservations.retried_until,
                fresh=False,
            ),
            min(self._again, self._reservations.again),
        )

    def _look(self, gang: PodGroup) -> tuple[PodRecord, ...]:
        """Decide what does not depend on other gangs; return the pods that wait for admission."""
        if not gang.living:
            return ()
        self._reserve(gang)
        if self._is_left_alone(gang):
            return ()
        self._release_overdue(gang)
        successors, others = self._sorted(gang)
        # Pods of another owner with the same gang name do not belong to the admitted gang.
        admitted = gang.key in self._admitted and bool(successors or not others)
        if gang.gated and not gang.has_quorum(admitted=admitted):
            self._say(gang, GangState.INCOMPLETE, messages.incomplete(gang, admitted=admitted))
            return ()
        if successors:
            self._releases.append(GangRelease(gang.key, GangReason.REPLACEMENT, successors))
            self._reservations.keep(gang.key)
            self._packing.place(shapes(successors))
        if not others:
            self._say(gang, *self._placing(gang))
        elif not gang.complete:
            self._say(gang, GangState.INCOMPLETE, messages.incomplete(gang, admitted=False))
        elif gang.existing - len(gang.foreign) < gang.minimum:
            self._say(gang, GangState.GATED_BY_OTHERS, messages.gated_by_others(gang))
        else:
            return others
        return ()

    def _sorted(self, gang: PodGroup) -> tuple[tuple[PodRecord, ...], tuple[PodRecord, ...]]:
        """Return the releasable pods of admitted owners, and the other releasable pods."""
        admitted = self._admitted.get(gang.key)
        pods = gang.releasable
        if self._overdue:
            pods = tuple(pod for pod in pods if pod.uid not in self._overdue)
        if not admitted:
            return (), pods
        successors = tuple(pod for pod in pods if about(pod).owner.uid in admitted)
        others = tuple(pod for pod in pods if about(pod).owner.uid not in admitted)
        return successors, others

    def _is_left_alone(self, gang: PodGroup) -> bool:
        """Return whether the gang is in back-off after its gates could not be removed; other gangs proceed."""
        failure = self._ungate_failures.get(gang.key)
        if failure is None or failure.until <= self._now:
            return False
        self._again = min(self._again, failure.until)
        self._say(gang, GangState.NOT_LIFTED, messages.not_lifted(failure.why))
        return True

    def _release_overdue(self, gang: PodGroup) -> None:
        if math.isinf(self._timings.gate_max_age):
            return
        due = {
            pod.key: pod.created + self._timings.gate_max_age for pod in gang.gated if pod.created
        }
        overdue = tuple(pod for pod in gang.gated if due.get(pod.key, math.inf) <= self._now)
        self._again = min([self._again, *(at for at in due.values() if at > self._now)])
        if overdue:
            self._releases.append(GangRelease(gang.key, GangReason.OVERDUE, overdue))
            self._overdue.update(pod.uid for pod in overdue)
            self._packing.place(shapes(overdue))

    def _reserve(self, gang: PodGroup) -> None:
        """Take the capacity for ungated pods while their gang has a reservation."""
        if gang.ungated_at is not None and self._reservations.of_released(
            gang.key, gang.ungated_at
        ):
            self._packing.place(shapes(gang.placing))

    def _placing(self, gang: PodGroup) -> tuple[GangState, str]:
        """Return state and message of a gang that has no pods to release."""
        if gang.gated and gang.foreign:
            return GangState.GATED_BY_OTHERS, messages.gated_by_others(gang)
        if not gang.unplaced and not gang.releasable:
            return GangState.SCHEDULED, messages.SCHEDULED
        reservation = self._reservations.reservation(gang.key)
        if gang.placing and reservation is not None and reservation.misses:
            if gang.works:
                return GangState.RELEASED, messages.WORKS
            return GangState.TIMED_OUT, messages.TIMED_OUT
        return GangState.RELEASED, messages.RELEASED

    def _timeouts(self) -> Iterator[GangKey]:
        """Yield gangs whose reservation timed out; those with minAvailable pods on nodes only the first time."""
        works = {gang.key for gang in self._gangs if gang.works}
        for key in self._reservations.ended:
            reservation = self._reservations.reservation(key)
            if key not in works or (reservation is not None and reservation.misses == 1):
                yield key

    def _go_through(
        self, waiting: list[tuple[PodGroup, tuple[PodRecord, ...]]]
    ) -> Generator[None, None, None]:
        """Release the first gang that fits. Gangs behind it, or behind one that blocks the queue, wait for their turn."""
        ends = self._is_paced()
        for gang, pods in waiting:
            yield
            if ends:
                self._say(gang, GangState.WAITS_FOR_TURN, messages.WAITS_FOR_TURN)
                continue
            release = partial(self._release_if_fits, gang, pods)
            ends = self._guard.attempt(f"room of {gang.key}", release, False)
            self._rest(f"room of {gang.key}")

    def _rest(self, key: str) -> None:
        """Decide again when a gang whose decision raised may be handled again."""
        if rest := self._guard.rest(key):
            self._again = min(self._again, self._now + rest)

    def _release_if_fits(self, gang: PodGroup, pods: tuple[PodRecord, ...]) -> bool:
        """Release a gang that fits; return whether the gangs behind it wait for their turn."""
        demand = gang.demand if len(pods) == len(gang.releasable) else shapes(pods)
        missing = gang.minimum - len(gang.placed) - len(gang.unplaced)
        need = min(max(1, missing), len(pods))
        shortage = self._packing.shortage(demand, need=need) if self._timings.fit else None
        if shortage is not None:
            never = self._empty.shortage(demand, need=need)
            return self._pass_over(gang, shortage, never)
        order = self._packing.order(demand)
        first_to_last = sorted(pods, key=lambda pod: order.index(shape(pod)))
        self._releases.append(GangRelease(gang.key, GangReason.ADMITTED, tuple(first_to_last)))
        self._say(gang, GangState.RELEASED, messages.RELEASED)
        return True

    def _is_paced(self) -> bool:
        """Return whether kube-scheduler is still placing an earlier release."""
        return any(release.reason is GangReason.REPLACEMENT for release in self._releases) or any(
            self._paces(gang) for gang in self._gangs
        )

    def _paces(self, gang: PodGroup) -> bool:
        reservation = self._reservations.reservation(gang.key)
        if reservation is None or not reservation.first or not gang.placing:
            return False
        return self._now < reservation.began + self._timings.timeout

    def _pass_over(self, gang: PodGroup, shortage: Shortage, never: Shortage | None) -> bool:
        """Return whether the queue is blocked for a gang that does not fit."""
        if never is not None:
            self._say(gang, GangState.TOO_LARGE, messages.too_large(gang, never), never)
            return False
        self._say(
            gang, GangState.WAITS_FOR_ROOM, messages.waits_for_capacity(gang, shortage), shortage
        )
        if not shortage.nodes:  # waiting frees no capacity on eligible nodes if there are none
            return False
        aged = gang.created + self._timings.ageing if gang.created else math.inf
        return self._reservations.of_aged(gang.key, aged)

    def _say(
        self, gang: PodGroup, state: GangState, message: str, shortage: Shortage | None = None
    ) -> None:
        self._verdicts[gang.key] = GangVerdict(
            state, message, gang.created, gang.problems, shortage
        )


def _admissions(gangs: Iterable[PodGroup], before: GangHistory) -> dict[GangKey, frozenset[str]]:
    """Return the admitted owners of each gang, from the history and from existing pods."""
    there = {gang.key: gang for gang in gangs}
    # Single pods are not remembered once placed: they would crowd out gangs.
    gone = {
        key: owners - {""}
        for key, owners in before.admitted.items()
        if key not in there and not key.alone
    }
    kept = dict([(key, owners) for key, owners in gone.items() if owners][-_MOST_GONE:])
    for key, gang in there.items():
        known = before.admitted.get(key, frozenset())
        # Pods without an owner are not replaced: the history counts only until the watch shows them as admitted.
        known = gang.admitted | (known if key in before.reservations else known - {""})
        if len(known) > _MOST_OWNERS:
            known = gang.admitted
        if known:
            kept[key] = known
    return kept
