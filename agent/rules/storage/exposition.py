"""Parses recorded expositions, with or without timestamps, into a storage.

It accepts more than the agent exports: the text format and OpenMetrics, exemplars, any type and unit, and several
timestamps per series.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent.rules.promql import labels as label_sets
from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.syntax.printer import series
from agent.rules.storage.memory import MemoryStorage
from collectors.shared.formats.numerals import parse_float
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


_BLANK = r"[ \t]*+"
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_STRING = r'"((?:[^"\\]|\\.)*+)"'
_SAMPLE = re.compile(
    rf"{_BLANK}(?:(?P<name>{_NAME})|(?=\{{)){_BLANK}(?:\{{(?P<labels>(?:[^\"}}]|{_STRING})*+)\}})?{_BLANK}"
    rf"(?P<value>[^ \t{{}}#]++)(?:[ \t]++(?P<time>[^ \t#]++))?{_BLANK}(?P<exemplar>#.*)?",
)
_PAIR = re.compile(
    rf'{_BLANK}(?P<name>[a-zA-Z_][a-zA-Z0-9_]*+|"(?:[^"\\]|\\.)*+"){_BLANK}'
    rf"(?:={_BLANK}{_STRING})?{_BLANK}(?:,|$)"
)
_ESCAPE = re.compile(r"\\(.)")
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
    pairs = dict(_pairs(match["labels"] or ""))
    if match["name"]:
        pairs[NAME] = match["name"]
    if not pairs.get(NAME):
        raise ValueError(f"a sample without a name: {shown(line)}")
    time = _milliseconds(match["time"], openmetrics) if match["time"] else None
    return label_sets.make(pairs.items()), time, parse_float(match["value"])


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values; a quoted name without a value is the metric's."""
    text, place = text.rstrip(" \t"), 0
    while place < len(text):
        match = _PAIR.match(text, place)
        quoted = match is not None and match["name"].startswith('"')
        if match is None or (match[2] is None and not quoted):
            raise ValueError(f"not labels: {shown(text)}")
        name = _unescaped(match["name"].strip('"')) if quoted else match["name"]
        yield (NAME, name) if match[2] is None else (name, _unescaped(match[2]))
        place = match.end()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


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
