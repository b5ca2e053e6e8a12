"""Reads OpenMetrics text with timestamps, as `promtool tsdb dump-openmetrics` writes it.

Names and labels are parsed by `plimsoll.recording.series`, as in all that is recorded.
"""

import functools
import math
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, NamedTuple

import msgspec
import numpy as np

from evaluator.core.model.arrays import Floats
from plimsoll.recording import series
from plimsoll.text import SentenceError

_IN_NUMBERS = b"0123456789+-.eE"
_SEPARATED = bytes.maketrans(b" ", b",")
_decoder = msgspec.json.Decoder(list[float])
_BLOCK = 1 << 18
"""Bytes read at a time: what is made of them fits into a processor's cache."""
_SHORTEST = 64
EARLIEST, LATEST = -6e10, 1e11
"""Unix times of the years 68 and 5138; larger numbers are milliseconds."""
_MOST = 4_000_000
_COMMENT = ord("#")


class Run(NamedTuple):
    """Consecutive lines of one series: where they end in their block, how many they are, and `value time` of each line."""

    end: int
    lines: int
    text: bytes

    def numbers(self) -> Floats | None:
        """Return values and times, shape (lines, 2); None if one is not a number of JSON, such as 01 or 1e999."""
        listed = self.text[1:-1].translate(_SEPARATED, b"\n")
        try:
            decoded = _decoder.decode(b"[" + listed + b"]")
        except msgspec.DecodeError:
            return None
        return np.fromiter(decoded, np.float64, 2 * self.lines).reshape(-1, 2)


def find_run(block: bytes, begin: int, head: bytes, shortest: int) -> Run | None:
    """Return the run of lines from `begin` on that begin with `head`; None if it has other lines among them, or too few lines,
    or if anything but two numbers follows a head.
    """
    last = block.rfind(b"\n" + head + b" ", begin)
    end = block.index(b"\n", last + 1 if last >= 0 else begin) + 1
    lines = block.count(b"\n", begin, end)
    if lines < shortest:
        return None
    text, heads = _ends_before(head).subn(b"\n", block[begin + len(head) : end])
    if heads != lines - 1 or text.translate(None, _IN_NUMBERS) != b"  \n" * lines:
        return None
    return Run(end, lines, text)


@functools.lru_cache(maxsize=8)
def _ends_before(head: bytes) -> re.Pattern[bytes]:
    """Return the pattern of the end of a line and the next head; bytes.replace() takes twice as long for long heads."""
    return re.compile(re.escape(b"\n" + head))


class OpenMetricsError(SentenceError):
    """A text is not OpenMetrics with timestamps."""


@dataclass(slots=True)
class TextSeries:
    """One series: its name, labels, and the times (Unix seconds) and values of samples that were not taken."""

    name: str
    labels: Mapping[str, str]
    times: "array[float]" = field(default_factory=lambda: array("d"))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    first: float = math.inf
    last: float = -math.inf
    """Times of the first and the last sample that were taken."""
    last_value: float = math.nan

    @property
    def text(self) -> str:
        """Name and labels, such as `load1{node="a"}`; quotes in values are not escaped."""
        labels = ",".join(f'{key}="{value}"' for key, value in self.labels.items())
        return f"{self.name}{{{labels}}}"

    def take(self) -> tuple[Floats, Floats]:
        """Remove the samples and return their times and values, in the order of time."""
        times, values = np.array(self.times), np.array(self.values)
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        if len(times):
            self.first = min(self.first, float(times[0]))
            if times[-1] >= self.last:
                self.last, self.last_value = float(times[-1]), float(values[-1])
        self.times, self.values = array("d"), array("d")
        return times, values


class SeriesTable:
    """Series of several files by name and labels."""

    def __init__(
        self,
        wanted: Callable[[str], bool],
        *,
        on_full: Callable[["SeriesTable"], None] = lambda _table: None,
        most: int = _MOST,
        block: int = _BLOCK,
        shortest: int = _SHORTEST,
    ) -> None:
        """`wanted` returns whether to keep the series of a name. `on_full` is called after each `most` lines, to take samples.

        `block`: bytes read at a time. `shortest`: lines of one series that are parsed at once; fewer are parsed one by one.
        """
        self._wanted = wanted
        self._on_full = on_full
        self._most = most
        self._block = block
        self._shortest = shortest
        self._by_head: dict[bytes, TextSeries | None] = {}
        self.lines = 0
        """Lines read, also of other series."""

    @property
    def series(self) -> list[TextSeries]:
        """The series that were kept."""
        return [text_series for text_series in self._by_head.values() if text_series is not None]

    def read(self, name: str, file: IO[bytes]) -> None:
        """Add the samples of a text. Raises OpenMetricsError, which names the line; OSError."""
        number, full, rest = 0, self._most, b""
        while data := file.read(self._block):
            end = data.rfind(b"\n") + 1
            if end:
                number = self._read_block(name, number, rest + data[:end])
                rest = b""
            rest += data[end:]
            if number >= full:
                full = number + self._most
                self._on_full(self)
        # What follows the last line's end was cut by a crash.
        self.lines += number

    def _read_block(self, name: str, number: int, block: bytes) -> int:
        """Add the samples of whole lines; return the number of the last one. `number`: that of the line before."""
        begin = 0
        while begin < len(block):
            line_end = block.index(b"\n", begin) + 1
            if block[begin] in b"#\n":
                begin, number = line_end, number + 1
                continue
            head = block[begin : line_end - 1].rsplit(b" ", 2)[0]
            run = find_run(block, begin, head, self._shortest)
            if run is None or not self._add_run(name, number + 1, head, run):
                rest = block[begin:].split(b"\n")[:-1]
                self._read_lines(name, number, rest)
                return number + len(rest)
            begin, number = run.end, number + run.lines
        return number

    def _add_run(self, name: str, number: int, head: bytes, run: Run) -> bool:
        """Add the samples of a run; return False if its lines must be parsed one by one."""
        text_series = self._of_head(name, number, head)
        if text_series is None:
            return True
        pairs = run.numbers()
        if pairs is None:
            return False
        times = pairs[:, 1]
        if not ((times > EARLIEST) & (times < LATEST)).all():
            return False
        text_series.times.frombytes(times.tobytes())
        text_series.values.frombytes(pairs[:, 0].tobytes())
        return True

    def _read_lines(self, name: str, number: int, lines: Iterable[bytes]) -> None:
        known = self._by_head
        for line in lines:
            number += 1
            if not line or line[0] == _COMMENT:
                continue
            parts = line.rsplit(b" ", 2)
            if parts[0] in known:
                text_series = known[parts[0]]
            elif len(parts) == 3:
                text_series = self._of_head(name, number, parts[0])
            else:
                raise OpenMetricsError(_no_timestamp(name, number))
            if text_series is None:
                continue
            try:
                reading, at = float(parts[1]), float(parts[2])
            except (IndexError, ValueError) as error:
                raise OpenMetricsError(_no_timestamp(name, number)) from error
            if not EARLIEST < at < LATEST:
                raise OpenMetricsError(f"{name}: line {number}: its time is not in seconds")
            text_series.times.append(at)
            text_series.values.append(reading)

    def _of_head(self, source: str, number: int, head: bytes) -> TextSeries | None:
        """Return the series of a line's beginning; None if it is not kept."""
        if head not in self._by_head:
            self._by_head[head] = self._series(source, number, head)
        return self._by_head[head]

    def _series(self, source: str, number: int, head: bytes) -> TextSeries | None:
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            raise OpenMetricsError(f"{source}: line {number} is not UTF-8") from error
        try:
            name, labels = series.parse(text)
        except ValueError as error:
            raise OpenMetricsError(_no_timestamp(source, number)) from error
        return TextSeries(name, labels) if self._wanted(name) else None


def _no_timestamp(name: str, number: int) -> str:
    return (
        f"{name}: line {number} is not a sample with a timestamp: write the file with promtool tsdb dump-openmetrics, or "
        "with plimsoll-agent record"
    )
