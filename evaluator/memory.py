"""What a rule with a `for` or a `clearAfter` has to remember of each node, and how a moment changes it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evaluator.nodes import Moves, Nodes, Places
from evaluator.store import Bools, Floats
from evaluator.terms import Terms


class Seen(NamedTuple):
    """One rule at one moment: where it is broken, where only for the lack of a reading, where there never was one."""

    broken: Bools
    by_lack: Bools
    unheard: Bools

    def at(self, places: Places) -> "Seen":
        """Of a few nodes."""
        return Seen(self.broken[places], self.by_lack[places], self.unheard[places])


@dataclass(frozen=True)
class Memory:
    """One rule over the nodes; `blank` where nothing is known yet. Nothing in it is to be written to.

    `missing` and `carried` say why a node is in violation, if not by its reading; `unheard` that all there was so far is
    the lack of a first reading. `waiting` are the places where the rule is broken but not violated yet, or the other way
    round, and `began` when each of those became so: nowhere else does the time matter.
    """

    blank: Bools
    broken: Bools
    violated: Bools
    missing: Bools
    carried: Bools
    unheard: Bools
    waiting: Places
    began: Floats

    @classmethod
    def new(cls, nodes: Nodes) -> "Memory":
        """Of nodes about which nothing is known."""
        no = nodes.none
        return cls(nodes.all, no, no, no, no, no, np.zeros(0, np.intp), np.zeros(0))

    def moved(self, moves: Moves) -> "Memory":
        """The same over the nodes of today."""
        if moves.nothing:
            return self
        broken, violated = moves.mask(self.broken), moves.mask(self.violated)
        waiting = (broken ^ violated).nonzero()[0]
        return Memory(
            ~moves.mask(~self.blank),
            broken,
            violated,
            moves.mask(self.missing),
            moves.mask(self.carried),
            moves.mask(self.unheard),
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
        return self.broken & ~self.violated

    @property
    def clearing(self) -> Bools:
        """Where it is no longer broken, but not for long enough."""
        return self.violated & ~self.broken

    def due(self, terms: Terms) -> float:
        """When time alone will change something: a `for` or a `clearAfter` runs out."""
        if not self.waiting.size:
            return np.inf
        patience = np.where(self.broken[self.waiting], terms.hold, terms.clear)
        return float((self.began + patience).min())

    def after(self, seen: Seen, was: Bools, terms: Terms, *, now: float) -> "Memory":
        """One moment later; `was` is who was in violation.

        Only where something can change is anything worked out: of thousands of nodes that is a few.
        """
        places = self._unquiet(seen).nonzero()[0]
        if not places.size:
            return self
        few = self._at(places).step(seen.at(places), was[places], terms, now)
        return Memory(
            _put(self.blank, places, few.blank),
            seen.broken,
            _put(self.violated, places, few.violated),
            _put(self.missing, places, few.missing),
            _put(self.carried, places, few.carried),
            _put(self.unheard, places, few.unheard),
            places[few.waiting],
            few.began,
        )

    def unless(self, where: Bools, other: "Memory") -> "Memory":
        """This, but another on some nodes."""
        broken = np.where(where, other.broken, self.broken)
        violated = np.where(where, other.violated, self.violated)
        waiting = (broken ^ violated).nonzero()[0]
        return Memory(
            np.where(where, other.blank, self.blank),
            broken,
            violated,
            np.where(where, other.missing, self.missing),
            np.where(where, other.carried, self.carried),
            np.where(where, other.unheard, self.unheard),
            waiting,
            np.where(where, other.since, self.since)[waiting],
        )

    def step(self, seen: Seen, was: Bools, terms: Terms, now: float) -> "Memory":
        """One moment later, worked out on every node."""
        # A first reading ends what the lack of it began, or it would matter who came first: the node or its readings.
        anew = self.unheard & ~seen.unheard
        was = was & ~anew
        since = np.where(anew | self.blank | (self.broken != seen.broken), now, self.since)
        # Where nothing is waited for `since` is not known, and makes no difference.
        ripe, lasting = now >= since + terms.hold, now < since + terms.clear
        violated = np.where(seen.broken, was | ripe, was & lasting)
        waiting = (seen.broken ^ violated).nonzero()[0]
        return Memory(
            np.zeros_like(self.blank),
            seen.broken,
            violated,
            np.where(seen.broken, seen.by_lack, self.missing & ~anew),
            ~seen.broken & np.where(self.blank, was, self.carried),
            seen.unheard & np.where(self.blank, ~was, self.unheard),
            waiting,
            since[waiting],
        )

    def _at(self, places: Places) -> "Memory":
        """Of a few nodes, all that wait among them."""
        return Memory(
            self.blank[places],
            self.broken[places],
            self.violated[places],
            self.missing[places],
            self.carried[places],
            self.unheard[places],
            np.searchsorted(places, self.waiting),
            self.began,
        )

    def _unquiet(self, seen: Seen) -> Bools:
        """Where a step may change something."""
        found: Bools = (self.broken ^ self.violated) | self.blank | (self.broken ^ seen.broken)
        found |= self.unheard & ~seen.unheard
        found |= seen.broken & (seen.by_lack ^ self.missing)
        return found


def _put(column: Bools, places: Places, few: Bools) -> Bools:
    """A column, but for a few nodes; the very same where that makes no difference."""
    if few.tobytes() == column[places].tobytes():
        return column
    changed = column.copy()
    changed[places] = few
    return changed
