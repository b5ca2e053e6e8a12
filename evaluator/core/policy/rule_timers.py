"""The timers of one rule with `for` or `clearAfter`, per node."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.node_index import NodeIndex, Positions, Reindex
from evaluator.core.policy.types import RuleOptions


class TimedState(NamedTuple):
    """One rule at one moment, three masks (nodes,): it matches, it matches because a reading is missing, never reported."""

    matches: Bools
    by_missing: Bools
    never_reported: Bools

    def select(self, positions: Positions, none: Bools, few: Bools) -> "TimedState":
        """Return the state at some positions; `none` and `few` are the empty masks over all nodes and over those."""
        return TimedState(
            self.matches[positions],
            few if self.by_missing is none else self.by_missing[positions],
            few if self.never_reported is none else self.never_reported[positions],
        )


@dataclass(frozen=True)
class RuleTimers:
    """The timers of one rule; masks have shape (nodes,) and are read-only.

    Most masks of most rules are empty: then they are the shared object `none`, and cost nothing.

    `blank`: nothing is known yet. `matches`: the comparison is true now; `violated`: also after `for` and `clearAfter`.
    `missing` and `from_previous_leader`: why a node is in violation other than by its reading. `never_reported`: the
    violation is only due to a metric that was never reported. `waiting`: positions where `matches` and `violated` differ,
    and `began`: since when (seconds).
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
        """Return timers for nodes without any state."""
        no = nodes.none
        return cls(no, nodes.all, no, no, no, no, no, np.zeros(0, np.intp), np.zeros(0))

    def moved(self, reindex: Reindex, nodes: NodeIndex) -> "RuleTimers":
        """Return the timers over the current nodes."""
        if reindex.is_identity:
            return self
        matches, violated = reindex.mask(self.matches), reindex.mask(self.violated)
        none = nodes.none
        waiting = (matches ^ violated).nonzero()[0]
        return RuleTimers(
            none,
            _tidy(~reindex.mask(~self.blank), none),
            matches,
            violated,
            _tidy(reindex.mask(self.missing), none),
            _tidy(reindex.mask(self.from_previous_leader), none),
            _tidy(reindex.mask(self.never_reported), none),
            waiting,
            reindex.values(self.since)[waiting],
        )

    @cached_property
    def since(self) -> Floats:
        """When each node began to wait (seconds), shape (nodes,); NaN where it does not."""
        since = np.full(len(self.blank), np.nan)
        since[self.waiting] = self.began
        return since

    @property
    def pending(self) -> Bools:
        """Where `for` is running."""
        return self.matches & ~self.violated

    @property
    def clearing(self) -> Bools:
        """Where `clearAfter` is running."""
        return self.violated & ~self.matches

    def due(self, options: RuleOptions, now: float) -> float:
        """Return when the first `for` or `clearAfter` after `now` ends; infinity if there is none."""
        if not self.waiting.size:
            return np.inf
        limits = np.where(self.matches[self.waiting], options.for_seconds, options.clear_after)
        ends = self.began + limits
        later = ends[ends > now]
        return float(later.min()) if later.size else np.inf

    def after(
        self, seen: TimedState, was: Bools, options: RuleOptions, *, now: float
    ) -> "RuleTimers":
        """Advance to `now`; `was`, shape (nodes,), is where the rule was violated.

        Computes only the nodes that can change: a few out of thousands.
        """
        positions = self._may_change(seen).nonzero()[0]
        if not positions.size:
            return self
        if positions.size == was.size:
            return self.step(seen, was, options, now)
        none = self.none[: positions.size]
        few = self._at(positions, none).step(
            seen.select(positions, self.none, none), was[positions], options, now
        )
        return RuleTimers(
            self.none,
            _put(self.blank, positions, few.blank, self.none),
            seen.matches,
            _put(self.violated, positions, few.violated, self.none),
            _put(self.missing, positions, few.missing, self.none),
            _put(self.from_previous_leader, positions, few.from_previous_leader, self.none),
            _put(self.never_reported, positions, few.never_reported, self.none),
            positions[few.waiting],
            few.began,
        )

    def unless(self, where: Bools, other: "RuleTimers") -> "RuleTimers":
        """Return these timers, with those of `other` where `where` is set."""
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

    def step(self, seen: TimedState, was: Bools, options: RuleOptions, now: float) -> "RuleTimers":
        """Advance to `now` on all nodes."""
        begins, missing = self.matches ^ seen.matches, self.missing
        if self.never_reported is not self.none:
            # A first reading resets what its absence began; else the order of registration and report would matter.
            first_report = self.never_reported & ~seen.never_reported
            was, missing = was & ~first_report, missing & ~first_report
            begins = begins | first_report
        if self.blank is not self.none:
            begins = begins | self.blank
        since = np.where(begins, now, self.since)
        # `since` is NaN where no timer runs; the result does not depend on it there.
        ripe, lasting = now >= since + options.for_seconds, now < since + options.clear_after
        violated = np.where(seen.matches, was | ripe, was & lasting)
        waiting = (seen.matches ^ violated).nonzero()[0]
        from_leader = self._where(self.blank, was, self.from_previous_leader)
        never_reported = self._where(self.blank, ~was, self.never_reported)
        return RuleTimers(
            self.none,
            self.none,
            seen.matches,
            violated,
            self._where(seen.matches, seen.by_missing, missing),
            self._where(seen.matches, self.none, from_leader),
            self._where(seen.never_reported, never_reported, self.none),
            waiting,
            since[waiting],
        )

    def _where(self, condition: Bools, one: Bools, other: Bools) -> Bools:
        """Return `np.where` of masks; `none` if it is empty."""
        if condition is self.none or one is other:
            return other
        return _tidy(np.where(condition, one, other), self.none)

    def _at(self, positions: Positions, few: Bools) -> "RuleTimers":
        """Return the timers at some positions, which include all that wait; `few` is the empty mask over these."""
        blank, missing, from_previous_leader, never_reported = (
            few if mask is self.none else mask[positions]
            for mask in (self.blank, self.missing, self.from_previous_leader, self.never_reported)
        )
        return RuleTimers(
            few,
            blank,
            self.matches[positions],
            self.violated[positions],
            missing,
            from_previous_leader,
            never_reported,
            np.searchsorted(positions, self.waiting),
            self.began,
        )

    def _may_change(self, seen: TimedState) -> Bools:
        """Return where a step may change something."""
        found: Bools = (self.matches ^ self.violated) | (self.matches ^ seen.matches)
        if self.blank is not self.none:
            found |= self.blank
        if self.never_reported is not self.none:
            found |= self.never_reported & ~seen.never_reported
        if self.missing is not self.none or seen.by_missing is not self.none:
            found |= seen.matches & (seen.by_missing ^ self.missing)
        return found


def _tidy(column: Bools, none: Bools) -> Bools:
    return column if column.any() else none


def _put(column: Bools, positions: Positions, few: Bools, none: Bools) -> Bools:
    """Return a mask with new values at some positions; the same object if nothing changes."""
    if column is none and not few.any():
        return none
    if few.tobytes() == column[positions].tobytes():
        return column
    changed = column.copy()
    changed[positions] = few
    return _tidy(changed, none)
