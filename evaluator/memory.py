"""What a rule with a `for` or a `clearAfter` has to remember of each node, and how a moment changes it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from evaluator.nodes import Moves, Nodes, Places
from evaluator.store import Bools, Floats
from evaluator.terms import Terms

Column = TypeVar("Column", Bools, Floats)


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
    """One rule over the nodes; `blank` where nothing is known yet. `since` is when `broken` became what it is.

    `missing` and `carried` say why a node is in violation, if not by its reading; `unheard` that all there was so far is
    the lack of a first reading. None of them is to be written to.
    """

    blank: Bools
    broken: Bools
    since: Floats
    violated: Bools
    missing: Bools
    carried: Bools
    unheard: Bools

    @classmethod
    def new(cls, nodes: Nodes) -> "Memory":
        """Of nodes about which nothing is known."""
        no = nodes.none
        return cls(nodes.all, no, np.full(len(nodes), np.nan), no, no, no, no)

    def moved(self, moves: Moves) -> "Memory":
        """The same over the nodes of today."""
        if moves.nothing:
            return self
        return Memory(
            ~moves.mask(~self.blank),
            moves.mask(self.broken),
            moves.values(self.since),
            moves.mask(self.violated),
            moves.mask(self.missing),
            moves.mask(self.carried),
            moves.mask(self.unheard),
        )

    @property
    def pending(self) -> Bools:
        """Where the rule is broken, but not for long enough."""
        return self.broken & ~self.violated

    @property
    def clearing(self) -> Bools:
        """Where it is no longer broken, but not for long enough."""
        return self.violated & ~self.broken

    @cached_property
    def waiting(self) -> Bools:
        """Either: where time alone will change something."""
        return self.broken ^ self.violated

    def due(self, terms: Terms) -> float:
        """When that will be: a `for` or a `clearAfter` runs out."""
        places = self.waiting.nonzero()[0]
        if not places.size:
            return np.inf
        patience = np.where(self.broken[places], terms.hold, terms.clear)
        return float((self.since[places] + patience).min())

    def after(self, seen: Seen, was: Bools, terms: Terms, *, now: float) -> "Memory":
        """One moment later; `was` is who was in violation.

        Only where something can change is anything worked out: of thousands of nodes that is a few.
        """
        places = self._unquiet(seen).nonzero()[0]
        if not places.size:
            return self
        if 2 * places.size > was.size:
            return self.step(seen, was, terms, now)
        few = self.at(places).step(seen.at(places), was[places], terms, now)
        return self.put(places, few)

    def unless(self, where: Bools, other: "Memory") -> "Memory":
        """This, but another on some nodes."""
        places = where.nonzero()[0]
        return self.put(places, other.at(places)) if places.size else self

    def step(self, seen: Seen, was: Bools, terms: Terms, now: float) -> "Memory":
        """One moment later, worked out on every node."""
        # A first reading ends what the lack of it began, or it would matter who came first: the node or its readings.
        anew = self.unheard & ~seen.unheard
        was = was & ~anew
        since = np.where(anew | self.blank | (self.broken != seen.broken), now, self.since)
        ripe, lasting = now >= since + terms.hold, now < since + terms.clear
        return Memory(
            blank=np.zeros_like(self.blank),
            broken=seen.broken,
            since=since,
            violated=np.where(seen.broken, was | ripe, was & lasting),
            missing=np.where(seen.broken, seen.by_lack, self.missing & ~anew),
            carried=~seen.broken & np.where(self.blank, was, self.carried),
            unheard=seen.unheard & np.where(self.blank, ~was, self.unheard),
        )

    def at(self, places: Places) -> "Memory":
        """Of a few nodes."""
        return Memory(
            self.blank[places],
            self.broken[places],
            self.since[places],
            self.violated[places],
            self.missing[places],
            self.carried[places],
            self.unheard[places],
        )

    def put(self, places: Places, few: "Memory") -> "Memory":
        """This, but what is known of a few nodes."""
        return Memory(
            _placed(self.blank, places, few.blank),
            _placed(self.broken, places, few.broken),
            _placed(self.since, places, few.since),
            _placed(self.violated, places, few.violated),
            _placed(self.missing, places, few.missing),
            _placed(self.carried, places, few.carried),
            _placed(self.unheard, places, few.unheard),
        )

    def _unquiet(self, seen: Seen) -> Bools:
        """Where a step may change something."""
        found: Bools = self.waiting | self.blank | (self.broken ^ seen.broken)
        found |= self.unheard & ~seen.unheard
        found |= seen.broken & (seen.by_lack ^ self.missing)
        return found


def _placed(column: Column, places: Places, few: Column) -> Column:
    """A column, but for a few nodes; the very same where that makes no difference."""
    if few.tobytes() == column[places].tobytes():
        return column
    changed = column.copy()
    changed[places] = few
    return changed
