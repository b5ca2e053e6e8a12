"""Schedules all rule groups and combines their results.

A group is evaluated at its interval. While a subscriber uses some of its metrics, the rules behind these are evaluated every
second or two, as a group of their own; their results are published instead of the group's. If they look back far, the whole
group is evaluated every second instead: what its samples say has to survive the subscription.

Groups with the same interval share the samples of collectors. A group that would exceed the memory limit with new series is
stopped before they are taken; if samples of known series exceed it, the group that needs the most memory is stopped.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent.rules.groups import dependencies, results
from agent.rules.groups.file import SHORTEST, Group
from agent.rules.groups.group import RunningGroup
from agent.rules.groups.metrics import GroupAccount
from agent.rules.groups.results import GroupResult, Published
from agent.rules.groups.schedule import Schedule
from agent.rules.groups.shared_heads import Move, SharedHeads, Usage
from agent.rules.groups.tick import Tick, TickInputs, TickResult
from agent.rules.promql.budget import Budget
from agent.rules.promql.plan import Need
from agent.rules.storage.snapshot import Snapshot
from agent.rules.storage.store import FullError

_COUNT = 15_000
"""Milliseconds between two counts of stored samples."""
_RESERVE = 16
"""A part of the memory is for samples of known series: a group is stopped when these begin to use it up."""

Sources = Callable[[Iterable[Need]], frozenset[str]]
"""Returns the collectors for needed series."""
QuickInterval = Callable[[Group, Collection[str]], int]
"""Returns how often (ms) rules that a subscriber uses are evaluated, given the metrics that rules record."""


class Part(NamedTuple):
    """What is evaluated at once: a group, or those of its rules that subscribers use."""

    group: str
    quick: bool = False


@dataclass(slots=True)
class _Member:
    """A group and its statistics."""

    running: RunningGroup
    own_interval: int
    """Interval (ms) without subscribers; results are valid for a multiple of it."""
    interval: int
    """Its current interval in ms."""
    duration: float = 0.0
    timestamp: float | None = None
    missed: int = 0
    bytes: int = 0
    """Approximate bytes of its results, without the samples that it shares."""
    usage: Usage | None = None
    """Series and samples as of the last count; bytes of those it shares."""

    @property
    def result(self) -> GroupResult:
        """Return the group's latest result."""
        return GroupResult(self.running.group, self.own_interval, self.running.result)

    @property
    def metrics(self) -> frozenset[str]:
        """Return the metrics that it has evaluated."""
        return self.running.metrics if self.running.result.time else frozenset()

    def measure(self) -> None:
        """Update `bytes`."""
        history = self.running.history
        self.bytes = 0 if history is None else history.bytes + self.running.held


_Members = Mapping[Part, _Member]


class GroupManager:
    """All groups. Times are ms of the samples' clock. One thread at a time, except `published`."""

    def __init__(
        self,
        *,
        interval: int,
        max_memory: int,
        sources: Sources,
        quick_interval: QuickInterval,
        budget: Budget | None = None,
    ) -> None:
        """`interval`: default for groups without one. `max_memory`: bytes of all samples and results."""
        self._budget = budget or Budget()
        self._interval = interval
        self._max_memory = max_memory
        self._reserve = max_memory // _RESERVE
        self._sources = sources
        self._quick_interval = quick_interval
        self._groups: tuple[Group, ...] = ()
        self._members: _Members = {}
        self._dependencies: Mapping[str, frozenset[str]] = {}
        self._help: Mapping[str, str] = {}
        self._shared: frozenset[str] = frozenset()
        self._schedule = Schedule[Part]({}, 0)
        self._subscribed: Collection[str] = frozenset()
        self._heads = SharedHeads(self._budget)
        self._counted: int | None = None

    def adopt(self, groups: Sequence[Group], now: int, saved: Mapping[str, Snapshot]) -> None:
        """Replace the groups. Groups keep the samples they still need; new ones start with saved samples."""
        before = self._members
        members: dict[Part, _Member] = {}
        moves: list[Move] = []
        self._groups = dependencies.ordered(groups)
        for group in self._groups:
            part = Part(group.name)
            known = before.get(part)
            history = known.running.history if known is not None else None
            if known is not None and history is not None and known.running.group == group:
                members[part] = known
                known.interval = known.own_interval
                continue
            members[part] = member = self._member(group)
            if known is not None and history is not None:
                self._restore(member, history.snapshot(), now)
                moves.append((known.running.shared, member.running.shared))
            elif group.name in saved:
                self._restore(member, saved[group.name], now)
        for part, known in before.items():
            if members.get(part) is not known:
                known.running.shared.leave(known.running)
        self._members = members
        if not before:
            self._heads.restore(saved, self._free(), recorded=dependencies.recorded(groups))
        self._heads.copy(moves, self._free())
        self._dependencies = dependencies.dependencies(groups)
        self._help = results.help_texts(self._groups)
        self._shared = dependencies.shared(self._groups)
        self._schedule = Schedule({part: m.own_interval for part, m in members.items()}, now)
        self._subscribed = frozenset()

    def _member(self, group: Group) -> _Member:
        interval = max(group.interval or self._interval, SHORTEST)
        shared = self._heads.at(interval)
        running = RunningGroup(group, self._sources, shared, budget=self._budget)
        return _Member(running, interval, interval)

    def _restore(self, member: _Member, snapshot: Snapshot, now: int, ticks: int = 0) -> None:
        try:
            member.running.restore(snapshot, ticks, limit=self._free())
        except FullError as error:
            member.running.stop(now, "memory", str(error))
        member.measure()

    def _free(self) -> int:
        """Return the bytes that the samples shared by groups may take."""
        return self._max_memory - sum([member.bytes for member in self._members.values()])

    def accelerate(self, metrics: Collection[str], now: int) -> None:
        """Evaluate the rules that record these metrics every second or two, and the rules that they depend on."""
        if metrics == self._subscribed:
            return
        self._subscribed = metrics
        excerpts = dependencies.excerpts(self._groups, metrics)
        members: dict[Part, _Member] = {}
        intervals: dict[str, int] = {}
        moves: list[Move] = []
        for group in self._groups:
            members[Part(group.name)] = slow = self._members[Part(group.name)]
            part, excerpt = Part(group.name, quick=True), excerpts.get(group.name)
            whole = excerpt is not None and not dependencies.is_short(excerpt, self._groups)
            slow.interval = SHORTEST if whole else slow.own_interval
            self._schedule.set(Part(group.name), slow.interval, now)
            if excerpt is not None and not whole:
                read = [
                    intervals.get(n, SHORTEST)
                    for n in self._dependencies[group.name]
                    if n in excerpts
                ]
                own = self._quick_interval(excerpt, self._help.keys())
                intervals[group.name] = min([own, *read])
                excerpt = replace(excerpt, interval=intervals[group.name])
            before = self._members.get(part)
            if excerpt is None or whole or slow.interval <= (excerpt.interval or 0):
                if before is not None:
                    slow.missed += before.missed
                    before.running.shared.leave(before.running)
                    self._schedule.remove(part)
            elif before is not None and before.running.group == excerpt:
                members[part] = before
            else:
                members[part] = quick = self._quick(excerpt, slow, before, now)
                moves.append((slow.running.shared, quick.running.shared))
                self._schedule.set(part, quick.interval, now)
        self._members = members
        self._heads.copy(moves, self._free())

    def _quick(self, excerpt: Group, slow: _Member, before: _Member | None, now: int) -> _Member:
        """Return an excerpt of a group, with its results, in place of another one."""
        quick = self._member(excerpt)
        quick.own_interval = slow.own_interval
        quick.missed = 0 if before is None else before.missed
        if before is not None:
            before.running.shared.leave(before.running)
        if slow.running.history is not None:
            self._restore(quick, slow.running.history.snapshot(), now, slow.running.ticks)
        return quick

    @property
    def next(self) -> int | None:
        """Return the time at which the next group is due."""
        return self._schedule.next

    def take(self, now: int) -> Sequence[Part]:
        """Return what is due in order of evaluation, and schedule its next evaluation."""
        due = self._schedule.take(now)
        for part, missed in due.items():
            self._members[part].missed += missed
        self._move(due)
        return [part for part in self._members if part in due]

    def _move(self, due: Iterable[Part]) -> None:
        """Let groups whose interval has changed share the samples of their new one."""
        moves: list[Move] = []
        for member in map(self._members.__getitem__, due):
            shared = self._heads.at(member.interval)
            moves.append((member.running.shared, shared))
            member.running.share(shared)
        self._heads.copy(moves, self._free())
        self._heads.prune()

    def is_accelerated(self, part: Part) -> bool:
        """Return whether a part is evaluated more often than its group's interval."""
        return part.quick or self._members[part].interval < self._members[part].own_interval

    def collectors(self, parts: Iterable[Part]) -> frozenset[str]:
        """Return the collectors that these need."""
        return frozenset[str]().union(*(self._members[part].running.sources for part in parts))

    def evaluate(self, part: Part, reading: TickInputs) -> TickResult:
        """Evaluate over collected samples and results of other groups."""
        member = self._members[part]
        reads = self._dependencies[part.group]
        others = {other: m for other, m in self._members.items() if other.group in reads}
        elsewhere = self._taken - member.bytes - member.running.shared.bytes
        self._budget.start_group()
        result = member.running.tick(
            Tick(
                reading.time,
                reading.epoch,
                self._interval,
                reading.families,
                reading.families.keys(),
                reading.failed,
                tuple(result.now(reading.time) for result in _results(others)),
                self._budget,
                self._max_memory - elsewhere,
                self._reserve,
            )
        )
        member.measure()
        if self._taken > self._max_memory - self._reserve:
            self._relieve(reading.time)
            result = member.running.result
        member.timestamp = (reading.time + reading.epoch) / 1000
        return result

    def broke(self, part: Part, time: int, text: str) -> None:
        """Record that a group cannot be evaluated at all."""
        self._stop(part, time, "evaluation", text)

    @property
    def _taken(self) -> int:
        return self._heads.bytes + sum([member.bytes for member in self._members.values()])

    def _relieve(self, time: int) -> None:
        """Stop the groups that need the most memory until the others have enough."""
        taken = {part: member.running.taken for part, member in self._members.items()}
        for part in sorted(taken, key=lambda part: taken[part], reverse=True):
            if (total := self._taken) <= self._max_memory - self._reserve or not taken[part]:
                return
            size = f"{round(taken[part])} of {total} bytes"
            text = f"the samples and results of all groups would take too much, its own {size}"
            self._stop(part, time, "memory", text)
            self._members[part].running.shared.settle_needs()

    def _stop(self, part: Part, time: int, reason: str, text: str) -> None:
        self._members[part].running.stop(time, reason, text)
        self._members[part].measure()

    def took(self, part: Part, seconds: float) -> None:
        """Record the duration of an evaluation."""
        self._members[part].duration = seconds

    def count(self, now: int) -> None:
        """Count the series and samples of each group, once in a while."""
        members = self._members.values()
        recent = self._counted is not None and now - self._counted < _COUNT
        if recent and all(member.usage is not None for member in members):
            return
        self._counted = now
        shares = self._heads.usage()
        for member in members:
            history = member.running.history
            own = Usage() if history is None else Usage(history.series, history.samples)
            shared = shares.get(member.running, Usage())
            member.usage = Usage(
                own.series + shared.series, own.samples + shared.samples, shared.bytes
            )

    def published(self, now: int) -> Published:
        """Return the results of all groups. Any thread may call it."""
        return results.publish(_results(self._members), now, self._help, self._shared)

    def snapshots(self) -> Mapping[str, Snapshot]:
        """Return the results of each group, and the samples that groups share."""
        results = {
            part.group: member.running.history.snapshot()
            for part, member in self._members.items()
            if member.running.history is not None and not part.quick
        }
        return {**results, **self._heads.snapshots()}

    def accounts(self) -> Sequence[GroupAccount]:
        """Return statistics of each group. Any thread may call it."""
        return [account for _, account in self.groups()]

    def groups(self) -> Sequence[tuple[Group, GroupAccount]]:
        """Return each group with its statistics. Any thread may call it."""
        everything = self._members
        return [
            (member.running.group, _account(member, everything.get(Part(part.group, quick=True))))
            for part, member in everything.items()
            if not part.quick
        ]


def _account(slow: _Member, quick: _Member | None) -> GroupAccount:
    members = [slow] if quick is None else [slow, quick]
    latest = max(members, key=lambda member: member.timestamp or 0)
    usages = [member.usage or Usage() for member in members]
    return GroupAccount(
        group=slow.running.group.name,
        rules=len(slow.running.group.rules),
        interval=members[-1].interval / 1000,
        duration=latest.duration,
        timestamp=latest.timestamp,
        missed=sum(member.missed for member in members),
        series=sum(usage.series for usage in usages),
        samples=sum(usage.samples for usage in usages),
        bytes=sum(member.bytes for member in members) + sum(usage.bytes for usage in usages),
    )


def _results(members: _Members) -> Iterator[GroupResult]:
    """Yield all results; a group's without those metrics that its quick part has."""
    for part, member in members.items():
        if part.quick:
            if member.metrics:
                yield member.result
            continue
        result, quick = member.result, members.get(Part(part.group, quick=True))
        if quick is not None and quick.metrics:
            result = replace(result, result=result.result.without(quick.metrics))
        yield result
