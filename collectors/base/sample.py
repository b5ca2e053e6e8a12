"""What a collector hands over: families of samples, as the Prometheus exposition format knows them."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Labels = tuple[tuple[str, str], ...]
"""Label names and values, in the order in which they are printed."""

MetricType = Literal["counter", "gauge", "untyped", "histogram", "summary"]


class Sample(NamedTuple):
    """One value of one series.

    `name` is the family's, or for histograms and summaries that with `_bucket`, `_sum` or `_count`.
    """

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one metric, with what its HELP and TYPE lines say."""

    name: str
    type: MetricType
    help: str
    samples: tuple[Sample, ...]


class Collector(Protocol):
    """Reads one telemetry source of a node. Blocking is allowed; it runs in a thread, never twice at once."""

    def collect(self) -> Iterable[Family]:
        """Read the source now. What is not there yields no sample, never 0.

        Raises SourceAbsentError where this machine has no such source, CollectorError where it cannot be read.
        """
        ...


@runtime_checkable
class Watchable(Protocol):
    """A collector whose source can be asked cheaply, many times a second, whether it changed."""

    def fingerprint(self) -> Hashable:
        """Something that differs once collect() would yield something else. Reads no content; any thread may call it."""
        ...


@runtime_checkable
class Deduplicates(Protocol):
    """A collector that exports what it is told to, and so may be told what another one says already."""

    def fit(self, own: Sequence[Family], others: Mapping[str, Family]) -> Sequence[Family]:
        """What it collected, without that in which others, by name, go before it. Any thread may call it."""
        ...


class CollectorError(Exception):
    """A source that could not be read this time; the next round tries again."""


class SourceAbsentError(CollectorError):
    """A source that this machine does not have: no error to an operator, and nothing to export."""
