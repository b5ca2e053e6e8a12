"""What a polled source says when it is asked for a metric: readings by node, or why there are none."""

import email.utils
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.readings.column import Reading
from plimsoll.text import SentenceError


class SourceError(SentenceError):
    """No answer. The text stays the same while its cause does; `reason` is one word for a counter."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PolledAnswer:
    """Readings by the name of their node; `flaws` are what is wrong with a part of the answer, each in a sentence."""

    readings: Mapping[str, Reading]
    flaws: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasurementTime:
    """One moment on two clocks: `here` in seconds of the store's clock, `there` in the answering server's Unix time.

    Both are of when an answer came, so that the age of what is in it needs no agreement between the two machines.
    """

    here: float
    there: float

    def translate(self, stamp: float) -> float:
        """The store's time for a time stamp of the server; one that lies ahead is of this moment."""
        return self.here - max(0.0, self.there - stamp)


def moment(date: str, *, here: float, wall: float) -> MeasurementTime:
    """Now, by an answer's Date header; a server that sends none is taken to agree with our own wall clock."""
    try:
        return MeasurementTime(here, email.utils.parsedate_to_datetime(date).timestamp())
    except (ValueError, OverflowError):  # the latter from years and zones beyond any calendar
        return MeasurementTime(here, wall)


def reading(samples: Sequence[tuple[float, float]]) -> Reading:
    """One reading out of a node's (value, time) pairs: of several, only their number counts, and the oldest time."""
    at = min(time for _, time in samples)
    value = samples[0][0] if len(samples) == 1 else float("nan")
    return Reading(len(samples), value, at)
