"""What a rule with a `for` or a `clearAfter` has to remember of each node, and how a moment changes it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evaluator.model.node_index import NodeIndex, Positions, Reindex
from evaluator.policy.rule_options import RuleOptions
from evaluator.readings.store import Bools, Floats


class TimedState(NamedTuple):
    """One rule at one moment: where it is broken, where only for the lack of a reading, where there never was one."""

    matches: Bools
    by_missing: Bools
    never_reported: Bools

    def at(self, places: Positions, none: Bools) -> "TimedState":
        """Of a few nodes; `none` is the mask of none of all nodes."""
        by_missing, never_reported = (
            _few(self.by_missing, places, none),
            _few(self.never_reported, places, none),
        )
        return TimedState(self.matches[places], by_missing, never_reported)


@dataclass(frozen=True)
class RuleTimers:
    """One rule over the nodes; `blank` where nothing is known yet. Nothing in it is to be written to.

    Of most rules most of it is set nowhere; then it is `none`, the nodes' own mask of nobody, and costs nothing.

    `missing` and `carried` say why a node is in violation, if not by its reading; `unheard` that all there was so far is
    the lack of a first reading. `waiting` are the places where the rule is broken but not violated yet, or the other way
    round, and `began` when each of those became so: nowhere else does the time matter.
    """

    none: Bools
    blank: Bools
    matches: Bools
    violated: Bools
    missing: Bools
    from_previous_leader: Bools
    never_reported: Bools
    waiting: Positions
    began: Floats

    @classmethod
    def new(cls, nodes: NodeIndex) -> "RuleTimers":
        """Of nodes about which nothing is known."""
        no = nodes.none
        return cls(no, nodes.all, no, no, no, no, no, np.zeros(0, np.intp), np.zeros(0))

    def moved(self, moves: Reindex, nodes: NodeIndex) -> "RuleTimers":
        """The same over the nodes of today."""
        if moves.nothing:
            return self
        matches, violated = moves.mask(self.matches), moves.mask(self.violated)
        none = nodes.none
        waiting = (matches ^ violated).nonzero()[0]
        return RuleTimers(
            none,
            _tidy(~moves.mask(~self.blank), none),
            matches,
            violated,
            _tidy(moves.mask(self.missing), none),
            _tidy(moves.mask(self.from_previous_leader), none),
            _tidy(moves.mask(self.never_reported), none),
            waiting,
            moves.values(self.since)[waiting],
        )

    @cached_property
    def since(self) -> Floats:
        """Per node when it began to wait, NaN where it does not."""
        since = np.full(len(self.blank), np.nan)
        since[self.waiting] = self.began
        return since

    @property
    def pending(self) -> Bools:
        """Where the rule is broken, but not for long enough."""
        return self.matches & ~self.violated

    @property
    def clearing(self) -> Bools:
        """Where it is no longer broken, but not for long enough."""
        return self.violated & ~self.matches

    def due(self, terms: RuleOptions) -> float:
        """When time alone will change something: a `for` or a `clearAfter` runs out."""
        if not self.waiting.size:
            return np.inf
        patience = np.where(self.matches[self.waiting], terms.for_seconds, terms.clear_after)
        return float((self.began + patience).min())

    def after(
        self, seen: TimedState, was: Bools, terms: RuleOptions, *, now: float
    ) -> "RuleTimers":
        """One moment later; `was` is who was in violation.

        Only where something can change is anything worked out: of thousands of nodes that is a few.
        """
        places = self._unquiet(seen).nonzero()[0]
        if not places.size:
            return self
        if places.size == was.size:
            return self.step(seen, was, terms, now)
        few = self._at(places).step(seen.at(places, self.none), was[places], terms, now)
        return RuleTimers(
            self.none,
            _put(self.blank, places, few.blank, self.none),
            seen.matches,
            _put(self.violated, places, few.violated, self.none),
            _put(self.missing, places, few.missing, self.none),
            _put(self.from_previous_leader, places, few.from_previous_leader, self.none),
            _put(self.never_reported, places, few.never_reported, self.none),
            places[few.waiting],
            few.began,
        )

    def unless(self, where: Bools, other: "RuleTimers") -> "RuleTimers":
        """This, but another on some nodes."""
        matches = np.where(where, other.matches, self.matches)
        violated = np.where(where, other.violated, self.violated)
        waiting = (matches ^ violated).nonzero()[0]
        return RuleTimers(
            self.none,
            _tidy(np.where(where, other.blank, self.blank), self.none),
            matches,
            violated,
            _tidy(np.where(where, other.missing, self.missing), self.none),
            _tidy(
                np.where(where, other.from_previous_leader, self.from_previous_leader), self.none
            ),
            _tidy(np.where(where, other.never_reported, self.never_reported), self.none),
            waiting,
            np.where(where, other.since, self.since)[waiting],
        )

    def step(self, seen: TimedState, was: Bools, terms: RuleOptions, now: float) -> "RuleTimers":
        """One moment later, worked out on every node."""
        # A first reading ends what the lack of it began, or it would matter who came first: the node or its readings.
        anew = self.never_reported & ~seen.never_reported
        was = was & ~anew
        since = np.where(anew | self.blank | (self.matches != seen.matches), now, self.since)
        # Where nothing is waited for `since` is not known, and makes no difference.
        ripe, lasting = now >= since + terms.for_seconds, now < since + terms.clear_after
        violated = np.where(seen.matches, was | ripe, was & lasting)
        waiting = (seen.matches ^ violated).nonzero()[0]
        return RuleTimers(
            self.none,
            self.none,
            seen.matches,
            violated,
            _tidy(np.where(seen.matches, seen.by_missing, self.missing & ~anew), self.none),
            _tidy(~seen.matches & np.where(self.blank, was, self.from_previous_leader), self.none),
            _tidy(seen.never_reported & np.where(self.blank, ~was, self.never_reported), self.none),
            waiting,
            since[waiting],
        )

    def _at(self, places: Positions) -> "RuleTimers":
        """Of a few nodes, all that wait among them."""
        none = self.none
        return RuleTimers(
            none[: places.size],
            _few(self.blank, places, none),
            self.matches[places],
            self.violated[places],
            _few(self.missing, places, none),
            _few(self.from_previous_leader, places, none),
            _few(self.never_reported, places, none),
            np.searchsorted(places, self.waiting),
            self.began,
        )

    def _unquiet(self, seen: TimedState) -> Bools:
        """Where a step may change something."""
        found: Bools = (self.matches ^ self.violated) | (self.matches ^ seen.matches)
        if self.blank is not self.none:
            found |= self.blank
        if self.never_reported is not self.none:
            found |= self.never_reported & ~seen.never_reported
        if self.missing is not self.none or seen.by_missing is not self.none:
            found |= seen.matches & (seen.by_missing ^ self.missing)
        return found


def _few(column: Bools, places: Positions, none: Bools) -> Bools:
    return none[: places.size] if column is none else column[places]


def _tidy(column: Bools, none: Bools) -> Bools:
    return column if column.any() else none


def _put(column: Bools, places: Positions, few: Bools, none: Bools) -> Bools:
    """A column, but for a few nodes; the very same where that makes no difference."""
    if column is none and not few.any():
        return none
    if few.tobytes() == column[places].tobytes():
        return column
    changed = column.copy()
    changed[places] = few
    return _tidy(changed, none)
