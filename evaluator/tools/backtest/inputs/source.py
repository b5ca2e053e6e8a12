"""Where a backtest reads from: the range and how it is written, the nodes, and the recording in consecutive parts.

Times of a range: RFC 3339, Unix seconds, `now`, or a time ago such as 7d.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.simulation import Period
from evaluator.tools.replay.run import Resources
from evaluator.tools.replay.samples import Recording
from plimsoll import durations, rfc3339
from plimsoll.durations import format_duration
from plimsoll.text import SentenceError, shown

_DAYS = re.compile(r"(?:(\d{1,5})w)?(?:(\d{1,5})d)?(.*)", re.ASCII)
_UNIX = re.compile(r"\d{9,11}(\.\d+)?", re.ASCII)
_MOST_STEPS = 4_000_000
"""Steps of a range: almost two years of 15 s. More take gigabytes, and often come from one sample with a wrong time."""


def span(text: str) -> float:
    """Return a duration as seconds: 15s, 36h, 7d, 2w, 1d12h. Raises ValueError."""
    match = _DAYS.fullmatch(text)
    weeks, days, rest = match.groups() if match else (None, None, text)
    if not rest and not (weeks or days):
        raise ValueError(f"not a duration: {shown(text)} (write it like 15s, 12h or 7d)")
    seconds = durations.duration(rest) if rest else 0.0
    return int(weeks or 0) * 7 * 86400 + int(days or 0) * 86400 + seconds


def moment(text: str, end: float) -> float:
    """Return a time as Unix seconds; a duration counts back from `end`. Raises ValueError."""
    if text == "now":
        return end
    if _UNIX.fullmatch(text):
        return float(text)
    try:
        return rfc3339.parse(text)
    except ValueError:
        pass
    try:
        return end - span(text)
    except ValueError as error:
        raise ValueError(
            f"not a time: {shown(text)} (write it like 2026-11-15T00:00:00Z, 1763164800, or 7d for seven days before the end)"
        ) from error


class BacktestError(SentenceError):
    """The backtest cannot run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to read: metrics, and the range as written in the arguments.

    `warm_up`: seconds before the range that its first decisions depend on.
    """

    metrics: Collection[str]
    begin: str
    end: str
    step: float
    stale_after: float
    warm_up: float
    node_label: str

    def period(self, first: float | None, last: float, *, ends: str = "") -> Period:
        """Return the range. `first` and `last`: the defaults of its ends; `ends`: the samples at these times.

        Raises BacktestError.
        """
        try:
            end = moment(self.end, last) if self.end else last
            begin = moment(self.begin, end) if self.begin else first
        except ValueError as error:
            raise BacktestError(f"--from or --to: {error}") from error
        if begin is None:
            raise BacktestError("--from is missing: say how far back to go, such as --from 7d")
        if not begin < end:
            raise BacktestError("--from is not before --to: the range is empty")
        if end - begin > _MOST_STEPS * self.step:
            raise BacktestError(
                f"the range has {(end - begin) / self.step:,.0f} steps of {format_duration(self.step)}, more than "
                f"{_MOST_STEPS:,}: shorten it with --from and --to, or use a longer --step{ends}"
            )
        return Period(begin, end)


class Source(Protocol):
    """A recording in consecutive parts."""

    @property
    def period(self) -> Period:
        """The range."""
        ...

    @property
    def start(self) -> float:
        """When the replay begins (Unix seconds)."""
        ...

    @property
    def nodes(self) -> NodeIndex:
        """All nodes of the recording."""
        ...

    @property
    def allocatable(self) -> Resources:
        """The resources of nodes, if known."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings of the source about what was read so far."""
        ...

    @property
    def sources(self) -> int:
        """How many sources of readings each part has."""
        ...

    def parts(self) -> Iterator[tuple[Recording, float]]:
        """Yield consecutive parts and their ends (Unix seconds). Raises BacktestError."""
        ...

    def close(self) -> None:
        """Close connections and files."""
        ...
