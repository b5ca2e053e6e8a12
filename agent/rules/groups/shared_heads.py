"""The samples of collectors that rule groups share, by the interval of the groups."""

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass

from agent.rules.promql.budget import Budget
from agent.rules.storage.shared_head import SharedHead
from agent.rules.storage.snapshot import Snapshot
from agent.rules.storage.store import FullError

Move = tuple[SharedHead, SharedHead]
"""From where to where a group moves, with its samples."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group is accounted for: a series that several groups need, for the first one."""

    series: int = 0
    samples: int = 0
    bytes: int = 0


class SharedHeads:
    """One `SharedHead` for each interval. One thread at a time."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._heads: dict[int, SharedHead] = {}

    def at(self, interval: int) -> SharedHead:
        """Return the samples of groups with this interval in ms."""
        if interval not in self._heads:
            self._heads[interval] = SharedHead(budget=self._budget)
        return self._heads[interval]

    @property
    def bytes(self) -> int:
        """Return the approximate memory in bytes."""
        return sum([head.bytes for head in self._heads.values()])

    def copy(self, moves: Iterable[Move], limit: float) -> None:
        """Add the samples that groups have elsewhere to those of their new interval, as far as they fit."""
        for before, after in dict.fromkeys(moves):
            if before is not after:
                after.settle_needs()
                self._merge(after, before.snapshot(after.needs_metric), limit)

    def restore(
        self, saved: Mapping[str, Snapshot], limit: float, *, recorded: Collection[str]
    ) -> None:
        """Add saved samples, as far as they fit, except of the metrics that rules record."""
        for head in self._heads.values():
            for snapshot in saved.values():
                self._merge(head, snapshot, limit, recorded)

    def _merge(
        self, head: SharedHead, snapshot: Snapshot, limit: float, without: Collection[str] = ()
    ) -> None:
        head.limit = limit - self.bytes + head.bytes
        try:
            head.merge(snapshot, without=without)
        except FullError:  # its groups are stopped when their new samples do not fit
            return

    def prune(self) -> None:
        """Drop samples that no group needs any more."""
        self._heads = {interval: head for interval, head in self._heads.items() if head.users}

    def snapshots(self) -> Mapping[str, Snapshot]:
        """Return a copy of all samples, by a name that is no group's as a rule."""
        return {
            f"samples each {interval} ms": head.snapshot() for interval, head in self._heads.items()
        }

    def usage(self) -> Mapping[Hashable, Usage]:
        """Return the share of each group."""
        found: dict[Hashable, Usage] = {}
        for head in self._heads.values():
            for user, series in head.by_user().items():
                found[user] = Usage(
                    len(series), sum(s.samples for s in series), sum(s.bytes for s in series)
                )
        return found
