"""What a source that is polled said last: one answer tells of one metric on all nodes at once.

Plain state like the store, with the same columns to read: times are passed in, nothing is asked for here.
"""

import contextlib
import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evaluator.readings.row_index import RowIndex, Rows
from evaluator.readings.store import NEVER, Column, Counts, Floats, Reading, SuspendedTime, unknown

_SPARE = 64
"""Names that are no node's may pile up to so many beyond the number of nodes before they are cleared away."""


@dataclass(slots=True)
class _Metric:
    """One metric. The last place of each array stands for every node that the answer did not name."""

    values: Floats = field(default_factory=lambda: np.full(1, np.nan))
    samples: Counts = field(default_factory=lambda: np.zeros(1, np.int32))
    at: Floats = field(default_factory=lambda: np.full(1, NEVER))
    since: float | None = None
    """When it was first looked for; None: not yet."""
    spoken: bool = False
    """Whether there was any word on it, be it a failure."""
    failing: bool = False
    fault: str = ""
    seen: tuple[Rows, Floats, Counts, Floats] | None = None
    """Of which rows, and the arrays as they were looked at last: an answer is looked at more often than it changes."""
    oldest: float | None = None
    """The first of its times, once somebody asked."""

    def at_rows(self, rows: Rows) -> tuple[Floats, Counts, Floats]:
        """Values, samples and times at some rows of a roster, in arrays that nobody is to write to."""
        if self.seen is None or self.seen[0] is not rows:
            known = np.where(rows < len(self.at) - 1, rows, -1)
            self.seen = (rows, self.values[known], self.samples[known], self.at[known])
        return self.seen[1:]

    def oldest_after(self, recent: float) -> float:
        """The first of its times from some moment on; infinity if there is none."""
        if self.oldest is None:
            self.oldest = float(self.at.min())
        if self.oldest >= recent:
            return self.oldest
        return float(self.at.min(where=self.at >= recent, initial=np.inf))

    def forget(self, row: int) -> None:
        """The node of this row is as one that the answer did not name."""
        if row < len(self.at) - 1:
            self.values[row], self.samples[row], self.at[row] = np.nan, 0, self.answered
            self.seen = self.oldest = None

    @property
    def answered(self) -> float:
        """When the last answer came."""
        return float(self.at[-1])


class PolledReadings:
    """Answers of one source by metric. A reading older than `stale_after` is missing; `started` is when asking began."""

    def __init__(self, name: str, *, stale_after: float, started: float) -> None:
        self.name = name
        self.stale_after = stale_after
        self.started = started
        self.pause = SuspendedTime()
        self.version = 0
        """Goes up when what a rule would see changed; not when the same was said again."""
        self._topics: dict[str, _Metric] = {}
        self._roster = RowIndex()

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that are kept."""
        return frozenset(self._topics)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep just these metrics; a new one is awaited."""
        wanted = set(metrics)
        if wanted != self._topics.keys():
            self._topics = {name: self._topics.get(name) or _Metric() for name in sorted(wanted)}
            self.version += 1

    def resume(self, since: float, now: float) -> None:
        """Nobody has asked from some time after `since` until now: what was fresh then is awaited, as all is at the start."""
        self.pause = SuspendedTime(since, now)
        self.version += 1

    def answer(
        self, metric: str, readings: Mapping[str, Reading], at: float, *, fault: str = ""
    ) -> None:
        """Take in what the source says of a metric: a node it does not name has none.

        `fault` is what is wrong with a part of the answer.
        """
        old = self._topics.get(metric)
        if old is None:
            return
        rows = [self._row(node) for node in readings]
        size = len(self._roster.rows) + 1
        new = _Metric(
            np.full(size, np.nan),
            np.zeros(size, np.int32),
            np.full(size, at),
            since=old.since,
            spoken=True,
            fault=fault,
        )
        new.values[rows] = [reading.value for reading in readings.values()]
        new.samples[rows] = [reading.samples for reading in readings.values()]
        new.at[rows] = [reading.at for reading in readings.values()]
        self._topics[metric] = new
        self.version += not self._alike(old, new, at)

    def failed(self, metric: str, fault: str) -> None:
        """The source has no answer, for this reason: what it said before keeps its age, and grows stale."""
        topic = self._topics.get(metric)
        if topic is not None and (not topic.failing or topic.fault != fault):
            self._topics[metric] = replace(topic, spoken=True, failing=True, fault=fault)
            self.version += 1

    @contextlib.contextmanager
    def snapshot(self, _nodes: Sequence[str]) -> Iterator["PolledReadings"]:
        """The readings as they are now, whatever is answered later. Only for reading."""
        frozen = copy.copy(self)
        frozen.freeze()
        yield frozen

    def freeze(self) -> None:
        """Stay what this is now, whatever the one of which it is a copy is told."""
        self._topics = self._topics.copy()

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """One metric over some nodes, in arrays that later answers leave alone and that nobody is to write to."""
        topic = self._topics.get(metric)
        if topic is None:
            return unknown(len(nodes), unreported=self._starting(now))
        fault = topic.fault and f"{self.name}: {topic.fault}"
        if topic.answered == NEVER:
            unreported = self._awaits(topic, now)
            return unknown(len(nodes), unreported=unreported, unread=topic.failing, fault=fault)
        values, samples, at = topic.at_rows(self._roster.find(nodes))
        fresh, hidden = at >= now - self.stale_after, np.zeros(len(nodes), bool)
        if self.pause.matters(now, self.stale_after):
            hidden = self.pause.hides(at, fresh, self.stale_after)
        unread = np.full(len(nodes), topic.failing)
        return Column(values, samples, at, fresh, unread, hidden, fault, source=self.name)

    def next_expiry(self, now: float) -> float:
        """When time alone will change something: a fresh reading has become too old, or is no longer awaited."""
        recent = now - self.stale_after
        times = [self.started, self.pause.end]
        for topic in self._topics.values():
            times.append(topic.oldest_after(recent))
            if not topic.spoken and topic.since is not None:
                times.append(topic.since)
        return min((at for at in times if at >= recent), default=np.inf) + self.stale_after

    def forget(self, node: str) -> None:
        """Drop what was said of a node that is no more; one of its name is as one that no answer has named yet."""
        row = self._roster.rows.get(node)
        if row is None:
            return
        for topic in self._topics.values():
            topic.forget(row)
        self.version += 1

    def prune(self, nodes: Collection[str], now: float) -> None:
        """These are the nodes there are: names that come and go must not pile up. New metrics are awaited from now on."""
        for topic in self._topics.values():
            topic.since = now if topic.since is None else topic.since
        if len(self._roster.rows) <= 2 * len(nodes) + _SPARE:
            return
        kept = [node for node in self._roster.rows if node in nodes]
        found = self._roster.find(kept)
        for metric, topic in self._topics.items():
            rows = np.append(np.where(found < len(topic.at) - 1, found, -1), -1)
            self._topics[metric] = replace(
                topic,
                values=topic.values[rows],
                samples=topic.samples[rows],
                at=topic.at[rows],
                seen=None,
                oldest=None,
            )
        self._roster = RowIndex(kept)

    def _awaits(self, topic: _Metric, now: float) -> bool:
        """As with agents: "cannot be read" is a first word too, but at the start one waits all the same."""
        first = topic.since is None or now - topic.since < self.stale_after
        return self._starting(now) or (first and not topic.spoken)

    def _starting(self, now: float) -> bool:
        return now - self.started < self.stale_after

    def _alike(self, old: _Metric, new: _Metric, at: float) -> bool:
        """Whether a rule, or somebody who looks, would see no difference."""
        if (old.spoken, old.failing, old.fault) != (new.spoken, new.failing, new.fault):
            return False
        recent = at - self.stale_after
        return (
            len(old.at) == len(new.at)
            and np.array_equal(old.values, new.values, equal_nan=True)
            and np.array_equal(old.samples, new.samples)
            and np.array_equal(old.at >= recent, new.at >= recent)
        )

    def _row(self, node: str) -> int:
        row = self._roster.rows.get(node)
        if row is None:
            row = len(self._roster.rows)
            self._roster.put(node, row)
        return row
