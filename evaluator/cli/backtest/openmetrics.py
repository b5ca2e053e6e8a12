"""Reads OpenMetrics text with timestamps, as `promtool tsdb dump-openmetrics` writes it."""

import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from plimsoll.text import SentenceError

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_SERIES = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?")
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_ESCAPE = re.compile(r'\\[\\"n]')


class OpenMetricsError(SentenceError):
    """A text is not OpenMetrics with timestamps."""


@dataclass(slots=True)
class TextSeries:
    """One series: its name, labels, and the times (Unix seconds) and values of its samples."""

    name: str
    labels: Mapping[str, str]
    times: "array[float]" = field(default_factory=lambda: array("d"))
    values: "array[float]" = field(default_factory=lambda: array("d"))


class SeriesTable:
    """Series of several files by name and labels."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        """`wanted` returns whether to keep the series of a name."""
        self._wanted = wanted
        self._by_head: dict[bytes, TextSeries | None] = {}
        self.lines = 0
        """Samples read, also of other series."""

    @property
    def series(self) -> list[TextSeries]:
        """The series that were kept."""
        return [one for one in self._by_head.values() if one is not None]

    def read(self, name: str, lines: Iterable[bytes]) -> None:
        """Add the samples of a text. Raises OpenMetricsError, which names the line."""
        known, number = self._by_head, 0
        for number, line in enumerate(lines, start=1):
            if line[:1] in b"#\n" or line[-1:] != b"\n":
                continue  # a last line without an end was cut by a crash
            parts = line.rsplit(b" ", 2)
            if parts[0] in known:
                one = known[parts[0]]
            elif len(parts) == 3:
                one = known[parts[0]] = self._series(name, number, parts[0])
            else:
                raise OpenMetricsError(_no_timestamp(name, number))
            if one is None:
                continue
            try:
                reading, at = float(parts[1]), float(parts[2])
            except (IndexError, ValueError) as error:
                raise OpenMetricsError(_no_timestamp(name, number)) from error
            one.times.append(at)
            one.values.append(reading)
        self.lines += number

    def _series(self, source: str, number: int, head: bytes) -> TextSeries | None:
        """Return the series of a line's beginning; None if it is not kept."""
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            raise OpenMetricsError(f"{source}: line {number} is not UTF-8") from error
        try:
            name, labels = parse_series(text)
        except ValueError as error:
            raise OpenMetricsError(_no_timestamp(source, number)) from error
        return TextSeries(name, labels) if self._wanted(name) else None


def parse_series(text: str) -> tuple[str, Mapping[str, str]]:
    """Return the name and labels of a series such as `load1{node="a"}`. Raises ValueError."""
    match = _SERIES.fullmatch(text)
    if match is None:
        raise ValueError('not a series (write it like load1{node="a"})')
    labels = {key: _ESCAPE.sub(_unescape, value) for key, value in _LABEL.findall(match[2] or "")}
    return match[1], labels


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES[match[0]]


def _no_timestamp(name: str, number: int) -> str:
    return (
        f"{name}: line {number} is not a sample with a timestamp: write the file with promtool tsdb dump-openmetrics, or "
        "with plimsoll-agent record"
    )
