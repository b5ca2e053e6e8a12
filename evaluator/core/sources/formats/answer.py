"""The result of polling a source for a metric: readings by node, or an error."""

import email.utils
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.core.readings.column import Reading
from plimsoll.text import SentenceError


class SourceError(SentenceError):
    """A poll failed. The message is constant for its cause; `reason` is one word for a counter."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PolledAnswer:
    """Readings by node name; `flaws`: errors in parts of the response, as sentences."""

    readings: Mapping[str, Reading]
    flaws: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasurementTime:
    """One moment on two clocks: `here` in seconds of the store's clock, `there` in the server's Unix time.

    Both are taken when the response arrived, so that ages are correct although the clocks differ.
    """

    here: float
    there: float

    def translate(self, stamp: float) -> float:
        """Return a server's timestamp in the store's time; future timestamps count as now."""
        return self.here - max(0.0, self.there - stamp)


def moment(date: str, *, here: float, wall: float) -> MeasurementTime:
    """Return the current moment by the response's Date header; without one, by our own wall clock."""
    try:
        return MeasurementTime(here, email.utils.parsedate_to_datetime(date).timestamp())
    except (ValueError, OverflowError):  # OverflowError: years or zones out of range
        return MeasurementTime(here, wall)


def reading(samples: Sequence[tuple[float, float]]) -> Reading:
    """Return a node's reading from its (value, time) pairs; several give their number and the oldest time."""
    at = min(time for _, time in samples)
    value = samples[0][0] if len(samples) == 1 else float("nan")
    return Reading(len(samples), value, at)
