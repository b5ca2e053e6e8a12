"""Reservations of capacity for gangs, and the back-offs between them. No I/O; times are seconds of one clock."""

import math
from collections.abc import Callable, Mapping

from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import (
    GangHistory,
    GangState,
    GangTimings,
    GangVerdict,
    Reservation,
)

_SHARE = 0.5
"""The largest part of a back-off that jitter subtracts, so that gangs that failed together do not retry together."""


class Reservations:
    """The reservations of one decision. `ended`: gangs whose reservation ends now, before all pods have nodes."""

    def __init__(
        self, before: GangHistory, timings: GangTimings, *, now: float, random: Callable[[], float]
    ) -> None:
        self._reservations = dict(before.reservations)
        self._fresh = before.fresh
        self._timings = timings
        self._now = now
        self._random = random
        self._touched: set[GangKey] = set()
        self.unheld_until = before.unheld_until
        """Until then the queue is not blocked for aged gangs."""
        self.retried_until = before.retried_until
        """Until then one timed-out gang has a second reservation, and no other gets one."""
        self.ended: list[GangKey] = []
        self.again = math.inf
        """When the next reservation or back-off ends."""

    def reservation(self, key: GangKey) -> Reservation | None:
        """Return the current or last reservation of a gang, or None."""
        return self._reservations.get(key)

    def keep(self, key: GangKey) -> None:
        """Keep a gang's reservation until the watch shows that its gates were removed."""
        if key in self._reservations:
            self._touched.add(key)

    def of_released(self, key: GangKey, lifted: float) -> bool:
        """Return whether capacity is kept for a gang whose last gate was removed at `lifted`.

        A new leader treats ungated gangs as just admitted. After the first reservation, only one such gang at a time gets
        another: gangs that are never placed would otherwise take all capacity.
        """
        reservation = self._reservations.get(key)
        # Gates removed during a reservation do not extend it: a gang that keeps getting pods would never time out.
        # Times in the future (another clock, or an edited annotation) do not extend it either.
        if reservation is None or (
            not reservation.misses
            and reservation.began + self._timings.timeout <= lifted <= self._now
        ):
            reservation = Reservation(min(lifted, self._now), first=self._fresh)
        if reservation.began < reservation.rests_until <= self._now:
            if self._now < self.retried_until:
                reservation = reservation._replace(rests_until=self.retried_until)
            else:
                self.retried_until = self._now + self._timings.timeout
        return self._advance(key, reservation)

    def of_aged(self, key: GangKey, aged: float) -> bool:
        """Return whether the queue is blocked for a gang that does not fit; it may be from time `aged` on.

        After a gang's blocking times out, the queue is not blocked for others for at most as long: otherwise gangs that fit
        would starve behind many that do not.
        """
        if self._now < aged:
            self.again = min(self.again, aged)
            return False
        reservation = self._reservations.get(key, Reservation(self._now))
        if self._now < self.unheld_until:
            reservation = reservation._replace(
                rests_until=max(reservation.rests_until, self.unheld_until)
            )
        held = self._advance(key, reservation)
        if key in self.ended:
            until = self._now + self._timings.timeout
            self.unheld_until = min(until, self._reservations[key].rests_until)
        return held

    def kept(self, verdicts: Mapping[GangKey, GangVerdict]) -> dict[GangKey, Reservation]:
        """Return the reservations to carry to the next decision: active ones, and those of gangs that were not reached."""
        return {
            key: reservation
            for key, reservation in self._reservations.items()
            if key in self._touched
            or (key in verdicts and _goes_on(reservation, verdicts[key].state))
        }

    def _advance(self, key: GangKey, reservation: Reservation) -> bool:
        self._touched.add(key)
        if reservation.rests_until > self._now:
            return self._note(key, reservation, reservation.rests_until, keeps=False)
        if reservation.rests_until > reservation.began:
            reservation = reservation._replace(began=self._now)
        ends = reservation.began + self._timings.timeout
        if self._now < ends:
            return self._note(key, reservation, ends, keeps=True)
        self.ended.append(key)
        until = self._now + self._rest(reservation.misses)
        reservation = Reservation(
            reservation.began, misses=reservation.misses + 1, rests_until=until
        )
        return self._note(key, reservation, until, keeps=False)

    def _note(self, key: GangKey, reservation: Reservation, until: float, *, keeps: bool) -> bool:
        self._reservations[key] = reservation
        self.again = min(self.again, until)
        return keeps

    def _rest(self, misses: int) -> float:
        bound = min(self._timings.longest_backoff, self._timings.backoff * 2.0 ** min(misses, 30))
        return bound * (1.0 - _SHARE * self._random())


def _goes_on(reservation: Reservation, state: GangState) -> bool:
    """Return whether an untouched reservation is kept: the watch may not show removed gates yet."""
    waits = not reservation.first and state in {GangState.WAITS_FOR_TURN, GangState.WAITS_FOR_ROOM}
    return waits or state is GangState.RELEASED
