"""Parses recorded expositions, with or without timestamps, into a storage.

It accepts more than the agent exports: the text format and OpenMetrics, exemplars, any type and unit, and several
timestamps per series. The series of a sample have the grammar of all recordings, `plimsoll.recording.series`.
"""

import math
import re
from dataclasses import dataclass

from agent.rules.promql import labels as label_sets
from agent.rules.promql.labels import Labels
from agent.rules.promql.syntax.printer import series
from agent.rules.storage.memory import MemoryStorage
from collectors.shared.formats.numerals import parse_float
from plimsoll.recording import series as recorded
from plimsoll.recording.series import SERIES
from plimsoll.text import SentenceError, shown


class ExpositionError(SentenceError):
    """Text is not an exposition; the message has the line number."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """The samples of an exposition, and the latest timestamp in ms; None if there are no timestamps."""

    samples: tuple[tuple[Labels, int | None, float], ...]
    latest: int | None

    def listed(self, now: int) -> MemoryStorage:
        """Return the samples in order of time; those without a timestamp get `now`. Raises ExpositionError for duplicates."""
        found: dict[Labels, dict[int, float]] = {}
        for labels, time, value in self.samples:
            of_series = found.setdefault(labels, {})
            at = now if time is None else time
            if at in of_series:
                raise ExpositionError(f"twice at one time: {series(labels)}")
            of_series[at] = value
        return MemoryStorage({labels: sorted(times.items()) for labels, times in found.items()})


_SAMPLE = re.compile(
    rf"{SERIES}[ \t]*+(?P<value>[^ \t{{}}#]++)(?:[ \t]++(?P<time>[^ \t#]++))?[ \t]*+(?P<exemplar>#.*)?"
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_LONGEST = 10**14
"""Milliseconds of the year 5138, so that seconds or nanoseconds are not mistaken for ms."""


def parse(text: str) -> Exposition:
    """Parse an exposition. If it ends with `# EOF` it is OpenMetrics, with times in seconds."""
    lines = text.split("\n")
    openmetrics = next((line for line in reversed(lines) if line.strip()), "").strip() == "# EOF"
    samples = []
    for number, line in enumerate(lines, start=1):
        if not (start := line.strip()) or start.startswith("#"):
            continue
        try:
            samples.append(_sample(start, openmetrics))
        except ValueError as error:
            raise ExpositionError(f"line {number}: {error}") from error
    latest = max((time for _, time, _ in samples if time is not None), default=None)
    return Exposition(tuple(samples), latest)


def _sample(line: str, openmetrics: bool) -> tuple[Labels, int | None, float]:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a sample: {shown(line)}")
    name, pairs = recorded.named(match["name"], match["labels"])
    time = _milliseconds(match["time"], openmetrics) if match["time"] else None
    return label_sets.of_series(name, tuple(pairs.items())), time, parse_float(match["value"])


def _milliseconds(text: str, openmetrics: bool) -> int:
    if openmetrics and math.isfinite(seconds := parse_float(text)):
        time = round(1000 * seconds)
    elif _WHOLE.fullmatch(text):
        time = int(text)
    else:
        raise ValueError(f"not a time: {shown(text)}")
    if abs(time) > _LONGEST:
        raise ValueError(f"not a time of ours: {shown(text)}")
    return time
