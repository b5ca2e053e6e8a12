"""Collected samples of all rule groups with one interval: each series is held once, as long as any group needs it.

Groups that are evaluated at the same times read the same samples. On each tick, every group calls in turn:

    shared.begin(time)                   # the first group begins the tick
    shared.fill(user, families)          # samples of what the group needs; those that a group before has added are skipped

Series are created for the group whose turn it is, so a FullError is that group's. A metric of which no group asks on a tick,
such as after a group was stopped, is unknown on that tick.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.rules.promql.budget import Budget
from agent.rules.promql.labels import NAME, Labels, of_series
from agent.rules.promql.labels import value as value_of
from agent.rules.promql.plan import Need
from agent.rules.promql.values import LOOKBACK, same
from agent.rules.storage.index import PAIRS, MetricSeries, SeriesIndex
from agent.rules.storage.series import STALE, UNKNOWN, StoredSeries
from agent.rules.storage.snapshot import Snapshot
from agent.rules.storage.store import FullError, SeriesStore
from agent.rules.storage.timeline import Timeline
from collectors.interface.sample import Family
from collectors.interface.sample import Labels as Pairs

_FIRST = 1 << 30
"""Number of the first tick: `merge` may add earlier ones."""
_COMPARED = 256
"""Series from which on the memory of a group is estimated."""


@dataclass(frozen=True, slots=True)
class _User:
    """What a group needs."""

    name: Hashable
    needs: tuple[Need, ...]
    names: frozenset[str] | None
    """The metrics; None if a selector has no name."""

    def needs_series(self, labels: Labels) -> bool:
        """Return whether it needs a series."""
        return any(need.selector(labels) for need in self.needs)

    def share(self, series: StoredSeries) -> float:
        """Return the bytes of a series as far back as it needs them."""
        reaches = [need.reach for need in self.needs if need.selector(series.labels)]
        if not reaches:
            return 0.0
        return series.bytes * min(1.0, (max(reaches) or 1) / (series.reach or 1))


class SharedHead(SeriesStore):
    """The series of collectors that some groups need (a `values.Storage`). One thread at a time."""

    def __init__(self, *, budget: Budget | None = None) -> None:
        """`budget`: checked for each new series; its LimitError is passed on."""
        super().__init__(SeriesIndex(()), budget=budget)
        self._timeline = Timeline(_FIRST)
        self._users: dict[Hashable, _User] = {}
        self._changed = False
        self._filled: set[str] = set()
        self._open = False

    @property
    def users(self) -> Collection[Hashable]:
        """Return the groups that need series."""
        return self._users.keys()

    def join(self, user: Hashable, needs: Iterable[Need]) -> None:
        """Add a group, which needs these series from now on."""
        needs = tuple(needs)
        names = frozenset(need.selector.metric for need in needs)
        self._users[user] = _User(user, needs, None if "" in names else names)
        self._changed = True

    def leave(self, user: Hashable) -> None:
        """Remove a group. What no other group needs is dropped when the next tick begins, or by `settle_needs`."""
        if self._users.pop(user, None) is not None:
            self._changed = True

    def settle_needs(self) -> None:
        """Keep only what the groups need now."""
        if not self._changed:
            return
        self._changed = False
        users = self._users.values()
        needs = dict.fromkeys(need for user in users for need in user.needs)
        self._reach = max([LOOKBACK, *(need.reach for need in needs)])
        self._index.change_needs(needs)
        self._filled.clear()
        metrics = self._index.metrics.values()
        self._all = [series for metric in metrics for series in metric.series.values()]
        self._bytes = sum(series.bytes for series in self._all)
        for series in self._all:
            if series.user not in self._users:
                series.user = self._first_user(series.labels)

    def _first_user(self, labels: Labels) -> Hashable:
        return next(
            (user for user, found in self._users.items() if found.needs_series(labels)), None
        )

    def by_user(self) -> Mapping[Hashable, Sequence[StoredSeries]]:
        """Return the series that each group is accounted for: those it needs and no group before it does."""
        found: dict[Hashable, list[StoredSeries]] = {}
        for series in self._all:
            found.setdefault(series.user, []).append(series)
        return found

    def needs_metric(self, name: str) -> bool:
        """Return whether a group may need series of this metric."""
        return self._index.metric(name) is not None

    def begin(self, time: int) -> None:
        """Begin a tick at a time in ms, unless another group has. Raises ValueError if it is before the last one."""
        if self._tick >= 0 and time == self._timeline.times[-1]:
            self.settle_needs()
            return
        self.close()
        self.settle_needs()
        self._tick = self._timeline.push(time)
        self._filled.clear()
        self._open = True

    def fill(self, user: Hashable, families: Mapping[str, Sequence[Family]]) -> None:
        """Add the samples that a group needs, by metric; series without a sample become stale.

        Of samples of one series within a tick, the first one counts. Raises FullError if they would exceed the limit: the
        series that this call has created are removed, the group has to leave.
        """
        found = self._users[user]
        names = families.keys() | self._index.metrics.keys() if found.names is None else found.names
        for name in names - self._filled:
            if (metric := self._index.metric(name)) is not None:
                if self._add(name, metric, found, families.get(name, ())):
                    self._filled.add(name)
                self._finish(metric)

    def _add(
        self, name: str, metric: MetricSeries, user: _User, families: Sequence[Family]
    ) -> bool:
        """Add the samples of a metric. Returns whether no other group needs further series of it."""
        tick, complete = self._tick, True
        created: list[StoredSeries] = []
        known = metric.known
        try:
            for family in families:
                for sample_name, pairs, value in family.samples:
                    if sample_name != name:
                        continue
                    if pairs in known:
                        series = known[pairs]
                        if series is None:
                            continue
                    elif (
                        new := self._create(
                            of_series(name, pairs, family.type), metric, user, pairs, created
                        )
                    ) is None:
                        complete = complete and pairs in known
                        continue
                    else:
                        series = new
                    if value == series.value and (value or same(value, series.value)):
                        series.seen = tick
                    else:
                        self._sample(series, value)
                        if not series.live:
                            series.live = True
                            metric.live.append(series)
        except FullError:
            self._remove(metric, created)
            raise
        return complete

    def _create(
        self,
        labels: Labels,
        metric: MetricSeries,
        user: _User,
        pairs: Pairs,
        created: list[StoredSeries],
    ) -> StoredSeries | None:
        """Return the series of a new label set; None if this group does not need it."""
        self._budget.check()
        series = metric.series.get(labels)
        if series is None:
            reach = metric.reach(labels)
            if reach is None:
                if self.bytes + PAIRS <= self.limit:
                    self._index.remember(metric, pairs, None)
                return None
            if not user.needs_series(labels):
                return None  # created when it is that group's turn
            series = self._new(metric, labels, reach)
            series.user = user.name
            created.append(series)
        self._index.remember(metric, pairs, series)
        return series

    def _remove(self, metric: MetricSeries, gone: Sequence[StoredSeries]) -> None:
        if gone:
            removed = set(map(id, gone))
            self._all = [series for series in self._all if id(series) not in removed]
            self._bytes -= sum(series.bytes for series in gone)
            self._index.remove(metric, gone)

    def _finish(self, metric: MetricSeries) -> None:
        tick = self._tick
        if gone := [series for series in metric.live if series.seen != tick]:
            for series in gone:
                series.gap(tick, STALE)
                series.live = False
            metric.live = [series for series in metric.live if series.live]

    def close(self) -> None:
        """End the tick: metrics that no group asked for are unknown, and old samples are dropped."""
        if not self._open:
            return
        self._open = False
        tick = self._tick
        for name, metric in self._index.metrics.items():
            if name not in self._filled:
                for series in metric.live:
                    if series.seen != tick and series.value is not None:
                        series.gap(tick, UNKNOWN)
        self._forget(self._timeline.times[-1])

    def taken(self, user: Hashable) -> float:
        """Return the approximate bytes of a group's series, as far back as it needs them, whether or not others share them.

        Of many series, it is an estimate from a part of them: hundreds of groups are compared at once.
        """
        every = max(1, len(self._all) // _COMPARED)
        return every * sum([self._users[user].share(series) for series in self._all[::every]])

    def snapshot(self, needs_metric: Callable[[str], bool] = lambda _: True) -> Snapshot:
        """Return a copy of the metrics for which this is true."""
        self.close()
        return self._snapshot(needs_metric)

    def merge(self, saved: Snapshot, *, without: Collection[str] = ()) -> None:
        """Add the samples of another store, as far as groups need them and older than those of a series that is here already.

        Samples at times between this store's ticks are dropped. `without`: metrics to leave out. Raises FullError.
        """
        self.close()
        self.settle_needs()
        if not saved.times:
            return
        ticks = self._timeline.prepend(saved.times)
        self._tick = latest = self._timeline.latest
        for source in saved.series:
            name = value_of(source.labels, NAME)
            metric = None if name in without or source.source else self._index.metric(name)
            if metric is None or (reach := metric.reach(source.labels)) is None:
                continue
            known = metric.series.get(source.labels)
            series = known or self._new(metric, source.labels, reach)
            if series.user is None:
                series.user = self._first_user(series.labels)
            series.prepend(source, saved.base, ticks, latest)
            self._measure(series)
            if known is None and series.live:
                metric.live.append(series)
            self.check()
