"""Schedules all rule groups and combines their results.

A group is evaluated at its interval. While a subscriber uses some of its metrics, the rules behind these are evaluated every
second or two, as a group of their own; their results are published instead of the group's. If they look back far, the whole
group is evaluated every second instead: what its samples say has to survive the subscription.

Groups with the same interval share the samples of collectors. A group that would exceed the memory limit with new series is
stopped before they are taken; if samples of known series exceed it, the group that needs the most memory is stopped.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from agent.rules.groups import dependencies, results, schedule
from agent.rules.groups.file import SHORTEST, Group
from agent.rules.groups.group import RunningGroup
from agent.rules.groups.members import GroupMemory, Member, Members, Part, account, results_of
from agent.rules.groups.metrics import GroupAccount
from agent.rules.groups.results import Published
from agent.rules.groups.schedule import Schedule
from agent.rules.groups.shared_heads import Move, SharedHeads
from agent.rules.groups.tick import FamiliesByMetric, Tick, TickInputs, TickResult
from agent.rules.promql.budget import Budget
from agent.rules.promql.plan import Need
from agent.rules.storage.snapshot import Snapshot
from agent.rules.storage.store import FullError

Sources = Callable[[Iterable[Need]], frozenset[str]]
"""Returns the collectors for needed series."""
QuickInterval = Callable[[Group, Collection[str]], int]
"""Returns how often (ms) rules that a subscriber uses are evaluated, given the metrics that rules record."""


class GroupManager:
    """All groups. Times are ms of the samples' clock. One thread at a time, except `published`."""

    def __init__(
        self,
        *,
        interval: int,
        max_memory: int,
        sources: Sources,
        quick_interval: QuickInterval,
        closed: bool = False,
        budget: Budget | None = None,
    ) -> None:
        """`interval`: default for groups without one. `max_memory`: bytes of all samples and results. `closed`: see `Moment`."""
        self._budget = budget or Budget()
        self._interval = interval
        self._closed = closed
        self._sources = sources
        self._quick_interval = quick_interval
        self._groups: tuple[Group, ...] = ()
        self._members: Members = {}
        self._dependencies: Mapping[str, frozenset[str]] = {}
        self._help: Mapping[str, str] = {}
        self._shared: frozenset[str] = frozenset()
        self._schedule = Schedule[Part]({}, 0)
        self._subscribed: Collection[str] = frozenset()
        self._heads = SharedHeads(self._budget)
        self._memory = GroupMemory(max_memory, self._heads)
        self._postponed: frozenset[Part] = frozenset()
        self._hastened: frozenset[Part] = frozenset()

    def adopt(self, groups: Sequence[Group], now: int, saved: Mapping[str, Snapshot]) -> None:
        """Replace the groups. Groups keep the samples they still need; new ones start with saved samples."""
        before = self._members
        members: dict[Part, Member] = {}
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
            self._heads.restore(
                saved, self._memory.free(self._members), recorded=dependencies.recorded(groups)
            )
        self._heads.copy(moves, self._memory.free(self._members))
        self._dependencies = dependencies.dependencies(groups)
        self._help = results.help_texts(self._groups)
        self._shared = dependencies.shared(self._groups)
        self._schedule = Schedule({part: m.own_interval for part, m in members.items()}, now)
        self._subscribed = frozenset()

    def _member(self, group: Group) -> Member:
        interval = max(group.interval or self._interval, SHORTEST)
        shared = self._heads.at(interval)
        running = RunningGroup(group, self._sources, shared, budget=self._budget)
        return Member(running, interval, interval)

    def _restore(self, member: Member, snapshot: Snapshot, now: int, ticks: int = 0) -> None:
        try:
            member.running.restore(snapshot, ticks, limit=self._memory.free(self._members))
        except FullError as error:
            member.stop(now, "memory", str(error))
        member.measure()

    def accelerate(self, metrics: Collection[str], now: int) -> None:
        """Evaluate the rules that record these metrics every second or two, and the rules that they depend on."""
        if metrics == self._subscribed:
            return
        self._subscribed = metrics
        excerpts = dependencies.excerpts(self._groups, metrics)
        members: dict[Part, Member] = {}
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
        self._heads.copy(moves, self._memory.free(self._members))

    def _quick(self, excerpt: Group, slow: Member, before: Member | None, now: int) -> Member:
        """Return an excerpt of a group, with its results, in place of another one."""
        quick = self._member(excerpt)
        quick.own_interval = slow.own_interval
        quick.missed = 0 if before is None else before.missed
        if before is not None:
            before.running.shared.leave(before.running)
        if slow.running.history is not None:
            self._restore(quick, slow.running.history.snapshot(), now, slow.running.ticks)
        return quick

    def hasten(self) -> None:
        """Let the rules that subscribers use be due now, beside their interval."""
        self._hastened = frozenset(filter(self.is_accelerated, self._members))

    @property
    def next(self) -> int | None:
        """Return the time at which the next group is due; 0 if groups were postponed."""
        return 0 if self._postponed else self._schedule.next

    def take(self, now: int) -> Sequence[Part]:
        """Return what is due, each group after those that it depends on, and schedule its next evaluation."""
        due = self._schedule.take(now)
        for part, missed in due.items():
            self._members[part].missed += missed + (part in self._postponed)
        self._move(due)
        wanted = due.keys() | self._postponed | self._hastened
        found = [part for part in self._members if part in wanted]
        self._postponed = self._hastened = frozenset()
        return found

    def ordered(self, due: Sequence[Part], families: FamiliesByMetric) -> Sequence[Part]:
        """Return due groups in order of evaluation."""
        return schedule.ordered(due, self._members, families)

    def postpone(self, parts: Iterable[Part]) -> None:
        """Let groups be due again at once: there was no time for them."""
        self._postponed = frozenset(parts)

    def _move(self, due: Iterable[Part]) -> None:
        """Let groups whose interval has changed share the samples of their new one."""
        moves: list[Move] = []
        for member in map(self._members.__getitem__, due):
            shared = self._heads.at(member.interval)
            moves.append((member.running.shared, shared))
            member.running.share(shared)
        self._heads.copy(moves, self._memory.free(self._members))
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
        self._budget.start_group()
        result = member.running.tick(
            Tick(
                reading.time,
                reading.epoch,
                self._interval,
                reading.families,
                reading.families.keys(),
                reading.failed,
                tuple(result.now(reading.time) for result in results_of(others)),
                self._budget,
                self._memory.free_for(part, self._members),
                self._memory.reserve,
                self._closed,
            )
        )
        member.measure()
        if self._memory.relieve(self._members, reading.time):
            result = member.running.result
        member.timestamp = (reading.time + reading.epoch) / 1000
        return result

    def broke(self, part: Part, time: int, text: str) -> None:
        """Record that a group cannot be evaluated at all."""
        self._members[part].stop(time, "evaluation", text)

    def took(self, part: Part, seconds: float, processor: float) -> None:
        """Record the duration of an evaluation, and its processor time in seconds."""
        self._members[part].duration = seconds
        self._members[part].cost = processor

    def count(self, now: int) -> None:
        """Count the series and samples of each group, once in a while."""
        self._memory.count(self._members, now)

    def published(self, now: int) -> Published:
        """Return the results of all groups. Any thread may call it."""
        return results.publish(results_of(self._members), now, self._help, self._shared)

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
            (member.running.group, account(member, everything.get(Part(part.group, quick=True))))
            for part, member in everything.items()
            if not part.quick
        ]
