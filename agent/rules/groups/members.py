"""The groups that are evaluated, with their statistics and results, and which are stopped when all take too much memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent.rules.groups.group import RunningGroup
from agent.rules.groups.metrics import GroupAccount
from agent.rules.groups.results import GroupResult
from agent.rules.groups.shared_heads import SharedHeads, Usage

_COUNT = 15_000
"""Milliseconds between two counts of stored samples."""
_RESERVE = 16
"""A part of the memory is for samples of known series: a group is stopped when these begin to use it up."""


class Part(NamedTuple):
    """What is evaluated at once: a group, or those of its rules that subscribers use."""

    group: str
    quick: bool = False


@dataclass(slots=True)
class Member:
    """A group and its statistics."""

    running: RunningGroup
    own_interval: int
    """Interval (ms) without subscribers; results are valid for a multiple of it."""
    interval: int
    """Its current interval in ms."""
    duration: float = 0.0
    cost: float = 0.0
    """Seconds, and seconds of processor time, of its last evaluation."""
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

    def stop(self, time: int, reason: str, text: str) -> None:
        """Stop the group at a time in ms: it records nothing from now on."""
        self.running.stop(time, reason, text)
        self.measure()


Members = Mapping[Part, Member]


def account(slow: Member, quick: Member | None) -> GroupAccount:
    """Return the statistics of a group and of its rules that subscribers use."""
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


def results_of(members: Members) -> Iterator[GroupResult]:
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


class GroupMemory:
    """The samples that groups share and the limit of these and all results. One thread at a time."""

    def __init__(self, limit: int, heads: SharedHeads) -> None:
        """`limit`: bytes."""
        self._limit = limit
        self._heads = heads
        self._counted: int | None = None
        self.reserve = limit // _RESERVE
        """Bytes for samples of known series."""

    def free(self, members: Members) -> int:
        """Return the bytes that the samples shared by groups may take."""
        return self._limit - _results(members)

    def free_for(self, part: Part, members: Members) -> int:
        """Return the bytes that the results of one group and the samples it shares may take."""
        member = members[part]
        elsewhere = self._taken(members) - member.bytes - member.running.shared.bytes
        return self._limit - elsewhere

    def relieve(self, members: Members, time: int) -> bool:
        """Stop the groups that need the most memory until the others have enough. Returns whether any was stopped."""
        enough = self._limit - self.reserve
        if self._taken(members) <= enough:
            return False
        taken = {part: member.running.taken for part, member in members.items()}
        for part in sorted(taken, key=lambda part: taken[part], reverse=True):
            if (total := self._taken(members)) <= enough or not taken[part]:
                break
            size = f"{round(taken[part])} of {total} bytes"
            text = f"the samples and results of all groups would take too much, its own {size}"
            members[part].stop(time, "memory", text)
            members[part].running.shared.settle_needs()
        return True

    def _taken(self, members: Members) -> int:
        return self._heads.bytes + _results(members)

    def count(self, members: Members, now: int) -> None:
        """Count the series and samples of each group, once in a while."""
        recent = self._counted is not None and now - self._counted < _COUNT
        if recent and all(member.usage is not None for member in members.values()):
            return
        self._counted = now
        shares = self._heads.usage()
        for member in members.values():
            history = member.running.history
            own = Usage() if history is None else Usage(history.series, history.samples)
            shared = shares.get(member.running, Usage())
            member.usage = Usage(
                own.series + shared.series, own.samples + shared.samples, shared.bytes
            )


def _results(members: Members) -> int:
    return sum([member.bytes for member in members.values()])
