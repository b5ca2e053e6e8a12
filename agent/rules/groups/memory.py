"""The memory that all rule groups take, and which of them are stopped when it exceeds its limit."""

from agent.rules.groups.members import Members, Part
from agent.rules.groups.shared_heads import SharedHeads, Usage

_COUNT = 15_000
"""Milliseconds between two counts of stored samples."""
_RESERVE = 16
"""A part of the memory is for samples of known series: a group is stopped when these begin to use it up."""


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
