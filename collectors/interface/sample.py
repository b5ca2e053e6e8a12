"""The results of collectors: families of samples, as in the Prometheus exposition format."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Labels = tuple[tuple[str, str], ...]
"""Label names and values, in exposition order."""

MetricType = Literal["counter", "gauge", "untyped", "histogram", "summary"]


class Sample(NamedTuple):
    """One value of one series.

    `name` is the family's; in histograms and summaries with `_bucket`, `_sum` or `_count`.
    """

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one metric with its HELP and TYPE."""

    name: str
    type: MetricType
    help: str
    samples: tuple[Sample, ...]


class Collector(Protocol):
    """Reads one telemetry source of a node. It may block; it runs in a thread, never twice at once."""

    def collect(self) -> Iterable[Family]:
        """Read the source. Missing data yields no sample, never 0.

        Raises SourceAbsentError if this machine has no such source, CollectorError if it cannot be read.
        """
        ...


@runtime_checkable
class Watchable(Protocol):
    """A collector whose source can be checked for changes cheaply, many times a second."""

    def fingerprint(self) -> Hashable:
        """Return a value that changes when collect() would yield something else; None if that never happens.

        Reads no content; any thread may call it.
        """
        ...


@runtime_checkable
class Deduplicates(Protocol):
    """A collector of arbitrary series, which may therefore duplicate those of other collectors."""

    def without_duplicates(
        self, own: Sequence[Family], others: Mapping[str, Family]
    ) -> Sequence[Family]:
        """Return its families without what duplicates `others` (by name). Any thread may call it."""
        ...


class Omission(NamedTuple):
    """Something of a source that is not exported."""

    file: str
    reason: str
    """One word, used as a label."""
    text: str


@runtime_checkable
class Omits(Protocol):
    """A collector that may omit a part of its source."""

    def omissions(self) -> Iterable[Omission]:
        """Return what the last runs omitted. Any thread may call it."""
        ...


class PermanentProblem(NamedTuple):
    """A permanent problem of the node, which it has (`active`) or not."""

    type: str
    active: bool
    reason: str
    message: str
    since: float
    """Unix seconds of the last transition; 0 if there was none since boot."""


class NodeEvent(NamedTuple):
    """A temporary problem of the node, or the begin of a permanent one."""

    source: str
    reason: str
    message: str
    at: float
    """Unix seconds of the last one."""
    times: int
    """Since the agent started."""


@runtime_checkable
class FindsProblems(Protocol):
    """A collector that finds problems of the node. Any thread may call its methods."""

    def conditions(self) -> Sequence[PermanentProblem]:
        """Return the permanent problems that it looks for."""
        ...

    def events(self) -> Sequence[NodeEvent]:
        """Return the last event of each source and reason."""
        ...

    def acknowledge(self, times: Mapping[str, float]) -> None:
        """End problems, by condition type, whose last sign is older than a time in Unix seconds."""
        ...


@runtime_checkable
class Closes(Protocol):
    """A collector with threads of its own."""

    def close(self) -> None:
        """End their work. Any thread may call it."""
        ...


class CollectorError(Exception):
    """A source could not be read this time; the next scrape tries again."""


class SourceAbsentError(CollectorError):
    """This machine does not have the source: not an error, and nothing to export."""
