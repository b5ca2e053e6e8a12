"""Schedules all rule groups and combines their results."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.rules.groups import dependencies, results
from agent.rules.groups.file import SHORTEST, Group
from agent.rules.groups.group import RunningGroup, Tick, TickResult
from agent.rules.groups.metrics import GroupAccount
from agent.rules.groups.results import GroupResult, Published
from agent.rules.groups.schedule import Schedule
from agent.rules.promql.budget import Budget
from agent.rules.promql.plan import Need
from agent.rules.storage.head import Head
from agent.rules.storage.snapshot import Snapshot
from collectors.base.sample import Family

_COUNT = 15_000
"""Milliseconds between two counts of stored samples."""
_PARTS = ("_bucket", "_sum", "_count")

Sources = Callable[[Iterable[Need]], frozenset[str]]
"""Returns the collectors for needed series."""


@dataclass(frozen=True, slots=True)
class TickInputs:
    """The samples of collectors for a tick."""

    time: int
    """Time of collection in ms of the samples' clock."""
    epoch: int
    """Offset in ms to Unix time."""
    families: tuple[Family, ...]
    failed: frozenset[str]
    """Collectors that could not read their source."""
    collected: frozenset[str]
    """The metrics of these families (`metrics_of`)."""


@dataclass(slots=True)
class _Member:
    """A group and its statistics."""

    running: RunningGroup
    interval: int
    """Its own interval in ms."""
    duration: float = 0.0
    timestamp: float | None = None
    missed: int = 0
    samples: int = 0
    counted: int | None = None

    @property
    def word(self) -> GroupResult:
        """Return the group's latest result."""
        return GroupResult(self.running.group, self.interval, self.running.result)

    @property
    def bytes(self) -> int:
        """Approximate bytes of its samples and results."""
        history = self.running.history
        return history.bytes + self.running.held if history is not None else 0


class GroupManager:
    """All groups. Times are ms of the samples' clock. One thread at a time, except `published`."""

    def __init__(
        self, *, interval: int, max_memory: int, sources: Sources, budget: Budget | None = None
    ) -> None:
        """`interval`: default for groups without one. `max_memory`: bytes of all samples and results."""
        self._budget = budget or Budget()
        self._interval = interval
        self._max_memory = max_memory
        self._sources = sources
        self._members: dict[str, _Member] = {}
        self._dependencies: Mapping[str, frozenset[str]] = {}
        self._schedule = Schedule({}, 0)

    def adopt(self, groups: Sequence[Group], now: int, saved: Mapping[str, Snapshot]) -> None:
        """Replace the groups. Groups keep the samples they still need; new ones start with saved samples."""
        before = self._members
        members: dict[str, _Member] = {}
        for group in dependencies.ordered(groups):
            known = before.get(group.name)
            history = known.running.history if known is not None else None
            if known is not None and history is not None and known.running.group == group:
                members[group.name] = known
                continue
            members[group.name] = member = self._member(group)
            snapshot = history.snapshot() if history is not None else saved.get(group.name)
            if snapshot is not None:
                member.running.restore(snapshot)
        self._members = members
        self._dependencies = dependencies.dependencies(groups)
        self._schedule = Schedule({name: m.interval for name, m in members.items()}, now)

    def _member(self, group: Group) -> _Member:
        history = Head(dependencies.needs(group), limit=self._max_memory, budget=self._budget)
        interval = max(group.interval or self._interval, SHORTEST)
        return _Member(RunningGroup(group, history, self._sources), interval)

    def accelerate(self, metrics: Collection[str], now: int) -> None:
        """Evaluate groups that record these metrics every second, and the groups that they depend on."""
        groups = (member.running.group for member in self._members.values())
        first = [g.name for g in groups if not dependencies.recorded([g]).isdisjoint(metrics)]
        self._schedule.accelerate(dependencies.closure(first, self._dependencies), now)

    @property
    def next(self) -> int | None:
        """Return the time at which the next group is due."""
        return self._schedule.next

    def take(self, now: int) -> Sequence[str]:
        """Return the due groups in order of evaluation, and schedule their next evaluation."""
        due = self._schedule.take(now)
        for name, missed in due.items():
            self._members[name].missed += missed
        return [name for name in self._members if name in due]

    def collectors(self, names: Iterable[str]) -> frozenset[str]:
        """Return the collectors that these groups need."""
        return frozenset[str]().union(*(self._members[name].running.sources for name in names))

    def evaluate(self, name: str, reading: TickInputs) -> TickResult:
        """Evaluate one group over collected samples and results of other groups."""
        member = self._members[name]
        others = [other for other in self._members.values() if other is not member]
        self._budget.start_group()
        result = member.running.tick(
            Tick(
                reading.time,
                reading.epoch,
                self._interval,
                reading.families,
                reading.collected,
                reading.failed,
                tuple(other.word.now(reading.time) for other in others),
                self._budget,
                self._max_memory - sum(other.bytes for other in others),
            )
        )
        total = sum(other.bytes for other in self._members.values())
        if total > self._max_memory:
            text = f"the samples and results of all groups would take {total} bytes"
            result = member.running.stop(reading.time, "memory", text)
        member.timestamp = (reading.time + reading.epoch) / 1000
        return result

    def broke(self, name: str, time: int, text: str) -> None:
        """Record that a group cannot be evaluated at all."""
        self._members[name].running.stop(time, "evaluation", text)

    def took(self, name: str, seconds: float) -> None:
        """Record the duration of an evaluation."""
        self._members[name].duration = seconds

    def published(self, now: int) -> Published:
        """Return the results of all groups. Any thread may call it."""
        words = [member.word for member in tuple(self._members.values())]
        return results.publish(words, now)

    def snapshots(self) -> Mapping[str, Snapshot]:
        """Return the samples of each group that has any."""
        return {
            name: member.running.history.snapshot()
            for name, member in self._members.items()
            if member.running.history is not None
        }

    def accounts(self, now: int) -> Sequence[GroupAccount]:
        """Return statistics of each group."""
        return [self._account(name, member, now) for name, member in self._members.items()]

    def _account(self, name: str, member: _Member, now: int) -> GroupAccount:
        history = member.running.history
        if history is None:
            member.samples = 0
        elif member.counted is None or now - member.counted >= _COUNT:
            member.samples, member.counted = history.samples, now
        return GroupAccount(
            group=name,
            rules=len(member.running.group.rules),
            interval=self._schedule.interval(name) / 1000,
            duration=member.duration,
            timestamp=member.timestamp,
            missed=member.missed,
            series=history.series if history is not None else 0,
            samples=member.samples,
            bytes=member.bytes,
        )


def metrics_of(families: Iterable[Family]) -> frozenset[str]:
    """Return the names of these families and of all their possible samples."""
    found: set[str] = set()
    for family in families:
        found.add(family.name)
        if family.type in {"histogram", "summary"}:
            found.update(family.name + part for part in _PARTS)
    return frozenset(found)
