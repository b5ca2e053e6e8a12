"""Expositions that were kept in a file, with or without timestamps, to be asked by expressions afterwards.

More is taken than an agent would export: the text format and OpenMetrics alike, exemplars, types and units of any
kind, and a series as often as there are different times of it.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent.rules.promql import labels as label_sets
from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.syntax.printer import series
from agent.rules.storage.memory import MemoryStorage
from collectors.formats.numerals import parse_float
from plimsoll.text import SentenceError, shown


class ExpositionError(SentenceError):
    """Text that is no exposition; says in which line."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """What an exposition says, and the time (ms) of its latest sample; None if its samples have no times."""

    samples: tuple[tuple[Labels, int | None, float], ...]
    latest: int | None

    def listed(self, now: int) -> MemoryStorage:
        """The samples in order of time; those without one are of `now`. ExpositionError where two are of one time."""
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
"""Milliseconds: the year 5138, so that what is meant as seconds, or as nanoseconds, does not pass for a time."""


def parse(text: str) -> Exposition:
    """The samples of an exposition. It is OpenMetrics, with times in seconds, where it ends with `# EOF`."""
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
    """Names and values; a name alone, in quotes, is the metric's."""
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
