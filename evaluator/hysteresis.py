"""`for` and `clearAfter`: a rule is violated once it was broken for a while, until it was not for a while.

What time has to do with it is a value that goes in and comes out (`Standing`), so that decide() stays a function of its
arguments. Nothing is written down: after a restart a running `for` begins again, and a label of ours says that the node
was in violation, so that it is taken off only after `clearAfter`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluator import rules
from evaluator.policy import Operator, Rule, Strategy
from evaluator.rules import View, Violations
from evaluator.store import NEVER, Bools, Floats

Positions = npt.NDArray[np.intp]


class _RuleKey(NamedTuple):
    """A rule as time knows it: an edit of its `for`, or of its place among others, makes no new one of it."""

    metric: str
    operator: Operator
    target: float
    nth: int
    """Which one of those that compare the same."""


@dataclass(frozen=True)
class Memory:
    """One rule over the nodes. `since` is when `broken` became what it is, NaN where nothing is known yet.

    `missing` and `carried` say why a node is in violation, if not by its reading; `unheard` that all there was so far is
    the lack of a first reading.
    """

    broken: Bools
    since: Floats
    violated: Bools
    missing: Bools
    carried: Bools
    unheard: Bools

    @classmethod
    def blank(cls, size: int) -> "Memory":
        """Of nodes about which nothing is known."""
        no = np.zeros(size, dtype=bool)
        return cls(no, np.full(size, np.nan), no, no, no, no)

    def at(self, positions: Positions) -> "Memory":
        """The same over other nodes; -1 is one that was not among these."""
        known = positions >= 0
        if not self.since.size:
            return Memory.blank(len(positions))

        def moved(column: Bools) -> Bools:
            return known & column[positions]

        return Memory(
            moved(self.broken),
            np.where(known, self.since[positions], np.nan),
            moved(self.violated),
            moved(self.missing),
            moved(self.carried),
            moved(self.unheard),
        )

    @property
    def pending(self) -> Bools:
        """Where the rule is broken, but not for long enough."""
        return self.broken & ~self.violated

    @property
    def clearing(self) -> Bools:
        """Where it is no longer broken, but not for long enough."""
        return self.violated & ~self.broken

    def unless(self, where: Bools, other: "Memory") -> "Memory":
        """This, but `other` on some nodes."""
        if not where.any():
            return self
        pairs = [(getattr(self, f.name), getattr(other, f.name)) for f in fields(Memory)]
        return Memory(*(np.where(where, theirs, mine) for mine, theirs in pairs))


@dataclass(frozen=True)
class Standing:
    """A strategy over the nodes at one moment. `due` is when time alone will change it.

    `settled` are the nodes about which something was decided: once every first reading that it takes was there.
    """

    rules: tuple[Rule, ...]
    found: Violations
    settled: Bools
    memories: Mapping[int, Memory] = field(default_factory=dict)
    """By the number of the rule; only for those that have a `for` or a `clearAfter`."""
    due: float = np.inf

    @property
    def pending(self) -> int:
        """On how many nodes a `for` is running."""
        return _anywhere([memory.pending for memory in self.memories.values()])

    @property
    def clearing(self) -> int:
        """On how many nodes a `clearAfter` is running."""
        return _anywhere([memory.clearing for memory in self.memories.values()])

    @property
    def lacking(self) -> Bools:
        """Which nodes violate the strategy by a rule that lacks a reading."""
        lacks: Bools = self.found.violated & self.found.missing.any(axis=1)
        return lacks

    @property
    def missing(self) -> int:
        """How many nodes those are."""
        return _anywhere([self.lacking])


def _anywhere(masks: Sequence[Bools]) -> int:
    return int(np.logical_or.reduce(masks).sum()) if masks else 0


@dataclass(frozen=True)
class Past:
    """What is known of a strategy from before.

    `positions` says where each of today's nodes was then (-1: nowhere). Where nothing was decided yet, `marked` tells
    whether the node bears the label that a rule set in an earlier life.
    """

    standing: Standing | None
    positions: Positions
    marked: Callable[[Rule, str], bool]

    def settled(self) -> Bools:
        """About which of today's nodes something was decided."""
        known = self.positions >= 0
        if self.standing is None or not known.any():
            return np.zeros(known.shape, dtype=bool)
        return known & self.standing.settled[self.positions]


def advance(strategy: Strategy, view: View, past: Past, *, now: float) -> Standing:
    """How a strategy stands at `now`, after how it stood before."""
    by_reading, by_lack = rules.by_rule(strategy, view)
    broken = by_reading | by_lack
    violated, missing, carried = broken.copy(), by_lack.copy(), np.zeros_like(broken)
    awaited = np.zeros(len(view.nodes), dtype=bool)
    memories: dict[int, Memory] = {}
    for number, rule in enumerate(strategy.rules):
        column = view.columns[rule.metric]
        awaited |= column.awaited
        if not rule.terms.timed:
            continue
        before = _remembered(past, strategy, number)
        blank = np.isnan(before.since)
        was = before.violated
        if blank.any():
            was = np.where(blank, _once_violated(past, strategy, number, view, blank), was)
        seen = _Seen(broken[:, number], by_lack[:, number], column.at == NEVER)
        after = _step(rule, seen, before, was, now)
        # Before its first word, a node is neither in violation nor out of it.
        memory = memories[number] = after.unless(column.awaited, before)
        violated[:, number] = after.violated & ~column.awaited
        missing[:, number], carried[:, number] = memory.missing, memory.carried
    found = rules.combined(strategy, violated, missing & violated, carried & violated)
    due = min((_due(strategy.rules[number], m) for number, m in memories.items()), default=np.inf)
    return Standing(strategy.rules, found, past.settled() | ~awaited, memories, due)


class _Seen(NamedTuple):
    """One rule at one moment: where it is broken, where only for the lack of a reading, where there never was one."""

    broken: Bools
    by_lack: Bools
    unheard: Bools


def _step(rule: Rule, seen: _Seen, before: Memory, was: Bools, now: float) -> Memory:
    """One rule, one moment later; `was` is who was in violation of it."""
    blank = np.isnan(before.since)
    # A first reading ends what the lack of it began, or it would matter who came first: the node or its readings.
    anew = before.unheard & ~seen.unheard
    was = was & ~anew
    since = np.where(anew | blank | (before.broken != seen.broken), now, before.since)
    ripe, lasting = now >= since + rule.terms.hold, now < since + rule.terms.clear
    return Memory(
        broken=seen.broken,
        since=since,
        violated=np.where(seen.broken, was | ripe, was & lasting),
        missing=np.where(seen.broken, seen.by_lack, before.missing & ~anew),
        carried=~seen.broken & np.where(blank, was, before.carried),
        unheard=seen.unheard & np.where(blank, ~was, before.unheard),
    )


def _due(rule: Rule, memory: Memory) -> float:
    """When time alone will change something: a `for` or a `clearAfter` runs out."""
    pending = memory.since[memory.pending] + rule.terms.hold
    clearing = memory.since[memory.clearing] + rule.terms.clear
    return float(np.concatenate([pending, clearing, [np.inf]]).min())


def _remembered(past: Past, strategy: Strategy, number: int) -> Memory:
    if past.standing is not None:
        old = _place(past.standing.rules, strategy.rules, number)
        if (memory := past.standing.memories.get(old)) is not None:
            return memory.at(past.positions)
    return Memory.blank(len(past.positions))


def _once_violated(past: Past, strategy: Strategy, number: int, view: View, blank: Bools) -> Bools:
    """Who was in violation of a rule about which nothing is remembered: it is new, or this process is.

    An edit of a rule makes another one of it. So that nothing flaps, a new rule inherits the violators of the strategy if
    some rule of it is no more.
    """
    rule, settled = strategy.rules[number], past.settled()
    was = np.zeros(blank.shape, dtype=bool)
    if past.standing is not None and settled.any():
        was = settled & _inherited(past.standing, strategy, number)[past.positions]
    # Of several rules of a labeling strategy, it is the one whose label the node bears.
    asked = blank & (~settled | (was & bool(rule.labels)))
    for position in np.flatnonzero(asked).tolist():
        was[position] = past.marked(rule, view.nodes[position])
    return was


def _inherited(standing: Standing, strategy: Strategy, number: int) -> Bools:
    """Over the nodes of that time."""
    old = _place(standing.rules, strategy.rules, number)
    if old >= 0:
        return standing.found.broken[:, old]
    if {*_keys(standing.rules)} - {*_keys(strategy.rules)}:
        return standing.found.violated
    return np.zeros_like(standing.found.violated)


def _place(old: Sequence[Rule], new: Sequence[Rule], number: int) -> int:
    """The number that a rule had among others; -1 if it was not there."""
    key, known = _keys(new)[number], _keys(old)
    return known.index(key) if key in known else -1


def _keys(given: Sequence[Rule]) -> list[_RuleKey]:
    counts: Counter[tuple[str, Operator, float]] = Counter()
    keys = []
    for rule in given:
        same = (rule.metric, rule.operator, rule.target)
        keys.append(_RuleKey(*same, counts[same]))
        counts[same] += 1
    return keys
