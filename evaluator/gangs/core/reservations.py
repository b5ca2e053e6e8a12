"""For which gangs room is kept, and for how long: turns, and the rests between them. No I/O; times are seconds of one clock."""

import math
from collections.abc import Callable, Mapping

from evaluator.gangs.core.podgroup import GangKey
from evaluator.gangs.core.types import GangHistory, GangState, GangTimings, GangVerdict, Reservation

_SHARE = 0.5
"""Of a rest, what chance takes off at most: gangs that failed together do not try again together."""


class Reservations:
    """The turns of one decision. `ended` are those that end now, without all pods having nodes."""

    def __init__(
        self, before: GangHistory, terms: GangTimings, *, now: float, random: Callable[[], float]
    ) -> None:
        self._reservations = dict(before.reservations)
        self._fresh = before.fresh
        self._terms = terms
        self._now = now
        self._random = random
        self._touched: set[GangKey] = set()
        self.unheld_until = before.unheld_until
        """Until then the line is held for nobody."""
        self.retried_until = before.retried_until
        """Until then room is kept for one gang whose pods found no nodes in their first turn."""
        self.ended: list[GangKey] = []
        self.again = math.inf
        """When the next one ends, or a rest."""

    def of(self, key: GangKey) -> Reservation | None:
        """The turn of a gang, if it has or had one."""
        return self._reservations.get(key)

    def keep(self, key: GangKey) -> None:
        """Gates of this gang are about to be lifted: until that is seen, its turn is the only word of it."""
        if key in self._reservations:
            self._touched.add(key)

    def of_released(self, key: GangKey, lifted: float) -> bool:
        """Whether room is kept for pods of a gang whose last gate was lifted at some time.

        A leader that begins does not know why they were lifted: as if their gang had just been admitted. After the first
        turn it is kept for one such gang at a time: those that are never placed would else have it all, for nothing.
        """
        reservation = self._reservations.get(key)
        # What is lifted in a turn has what is left of it: else a gang that gets new pods all the time would have no end to
        # its turn. Nor has one for a time to come, by another clock or of somebody's making.
        if reservation is None or (
            not reservation.misses
            and reservation.began + self._terms.timeout <= lifted <= self._now
        ):
            reservation = Reservation(min(lifted, self._now), first=self._fresh)
        if reservation.began < reservation.rests_until <= self._now:
            if self._now < self.retried_until:
                reservation = reservation._replace(rests_until=self.retried_until)
            else:
                self.retried_until = self._now + self._terms.timeout
        return self._advance(key, reservation)

    def of_aged(self, key: GangKey, aged: float) -> bool:
        """Whether the line is held for a gang that does not fit, and that has waited for long enough at some time.

        While one rests for which it was held, it is held for nobody, though for no longer than it was: where many wait for
        room that does not come, those that fit would else never be come to.
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
            until = self._now + self._terms.timeout
            self.unheld_until = min(until, self._reservations[key].rests_until)
        return held

    def kept(self, verdicts: Mapping[GangKey, GangVerdict]) -> dict[GangKey, Reservation]:
        """What the next decision has to know: turns that go on, and those of gangs that were not come to."""
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
        ends = reservation.began + self._terms.timeout
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
        bound = min(self._terms.longest_backoff, self._terms.backoff * 2.0 ** min(misses, 30))
        return bound * (1.0 - _SHARE * self._random())


def _goes_on(reservation: Reservation, state: GangState) -> bool:
    """Whether a turn matters further that nobody asked for: gates that are lifted may not be seen to be yet."""
    waits = not reservation.first and state in {GangState.WAITS_FOR_TURN, GangState.WAITS_FOR_ROOM}
    return waits or state is GangState.RELEASED
