"""Metrics that other programs and people leave in `*.prom` files: what cron jobs, hardware checks and operators know.

What a reader may rely on, whoever writes the files and however:
- A value that is exported was a whole line of its file. A file that breaks off in a line is left out as a whole: `1` may be
  the beginning of `12`. So is a file with anything wrong in it, and one that changes while it is read.
- A file replaced by rename(2) shows either its old or its new content, never anything between. Writers should do that.
- A file written in place (`echo ... > x.prom`) is empty for a moment, or broken off. While it is that young, the content
  before counts; it is not forgotten for an instant and remembered again.
- A program that writes in place and in several pieces can be seen with some of its lines only, if it pauses between lines.
  Those lines are right, the others are absent. Nothing on the outside can tell; rename(2) avoids it.
- One bad file hurts no other. Whatever is left out sets node_textfile_scrape_error to 1, has a row in
  node_textfile_file_error that names the file and the reason (a word of `refusal.REASONS`), and a log line, once.

What is left out is a whole file where the file itself is wrong (and then it has no mtime), or one metric of a file where the
file is right but somebody goes before it. Who goes before whom is the same each time: what is built in, then directories
in the order of the flags, then files by name. Of two that agree in TYPE and HELP, or leave HELP out, both are exported.
Nothing is opened that is not a regular file: a FIFO would wait for ever, a device may do anything.
"""

import os
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from collectors.base.metric import Metric, Table
from collectors.base.sample import Family
from collectors.formats import textmerge
from collectors.formats.textmerge import Conflict
from collectors.readers.promfiles import Limits, PromFile, PromFiles
from plimsoll import durations, logs
from plimsoll.flags import option

log = logs.get(__name__)

METRICS = Table(
    Metric(
        "node_textfile_mtime_seconds",
        "gauge",
        "Unixtime mtime of textfiles successfully read.",
        "*.prom",
        ("file",),
        "seconds",
    ),
    Metric(
        "node_textfile_scrape_error",
        "gauge",
        "1 if there was an error opening or reading a file, 0 otherwise",
        "*.prom",
    ),
    Metric(
        "node_textfile_file_error",
        "gauge",
        "1 for each file of which something is not exported, and the reason.",
        "*.prom",
        ("file", "reason"),
        node_exporter=False,
    ),
)
_ERROR, _FILE_ERROR = "node_textfile_scrape_error", "node_textfile_file_error"
_OWN = frozenset(metric.name for metric in METRICS)
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _size(text: str) -> int:
    digits = text.rstrip("KMGiB")
    unit = text[len(digits) :]
    if not digits.isascii() or not digits.isdigit() or len(digits) > 12 or unit not in _UNITS:
        raise ValueError(f"not a size: {text[:40]!r} (write it like 16MiB, 512KiB or 1000000)")
    return int(digits) * _UNITS[unit]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ValueError(f"not a number: {text[:40]!r}")
    return int(text)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    textfile_directories: tuple[str, ...] = option(
        "collector.textfile.directory",
        (),
        "directory whose *.prom files are read; may be a glob (repeatable)",
        metavar="DIR",
    )
    textfile_max_size: int = option(
        "collector.textfile.max-size",
        1 << 20,
        "a larger file is an error, and not read",
        metavar="SIZE",
        parse=_size,
    )
    textfile_max_total_size: int = option(
        "collector.textfile.max-total-size",
        4 << 20,
        "bytes that all files have together, in the order of directories and names; a file beyond is an error, and not read",
        metavar="SIZE",
        parse=_size,
    )
    textfile_max_samples: int = option(
        "collector.textfile.max-samples",
        20_000,
        "samples that all files have together, in the same order; a file with more is an error",
        metavar="NUMBER",
        parse=_count,
    )
    textfile_max_age: float = option(
        "collector.textfile.max-age",
        0.0,
        "a file that was not written for longer than this is an error, and not exported; 0 for any age",
        metavar="DURATION",
        parse=durations.duration,
    )


class Complaint(NamedTuple):
    """Something that is not exported: the file, a word of `refusal.REASONS`, a sentence."""

    file: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class _Export:
    """What some files add up to. While they are the same they need not be added up again."""

    files: Mapping[str, PromFile]
    unreadable: Mapping[str, str]
    stale: frozenset[str]
    families: tuple[Family, ...] = ()


class TextFile:
    """The `textfile` collector."""

    def __init__(
        self,
        options: Options,
        *,
        clock: Callable[[], float] = time.time,
        patience: float = 1.0,
    ) -> None:
        """`patience` as `PromFiles` has it."""
        self._files = PromFiles(
            options.textfile_directories,
            limits=Limits(
                options.textfile_max_size,
                options.textfile_max_total_size,
                options.textfile_max_samples,
            ),
            clock=clock,
            patience=patience,
        )
        self._max_age = options.textfile_max_age
        self._clock = clock
        self._last: _Export | None = None
        self._complaints: frozenset[Complaint] = frozenset()
        self._clashes: frozenset[Complaint] = frozenset()

    def collect(self) -> Sequence[Family]:
        """Read what changed since the last time; the rest is remembered."""
        files, unreadable = self._files.read()
        now = _Export(files, unreadable, self._stale(files))
        if self._last is None or replace(self._last, families=()) != now:
            self._last = replace(now, families=tuple(self._add_up(now)))
        return self._last.families

    def fit(self, own: Sequence[Family], others: Mapping[str, Family]) -> Sequence[Family]:
        """Leave out what others export already, and say so."""
        if not any(family.name in others for family in own):
            return own
        kept, conflicts = textmerge.beside(own, others)
        clashes = frozenset(map(_complaint, conflicts))
        for clash in sorted(clashes - self._clashes):
            log.error("metric of a text file not exported", file=clash.file, reason=clash.text)
        self._clashes |= clashes
        if not clashes:
            return kept
        rows = {clash[:2] for clash in clashes}
        for family in kept:
            if family.name == _FILE_ERROR:
                rows |= {(s.labels[0][1], s.labels[1][1]) for s in family.samples}
        return [*(f for f in kept if f.name not in {_FILE_ERROR, _ERROR}), *_errors(rows)]

    def fingerprint(self) -> Hashable:
        """Changes with the files."""
        return self._files.fingerprint()

    def _stale(self, files: Mapping[str, PromFile]) -> frozenset[str]:
        if not self._max_age:
            return frozenset()
        oldest = self._clock() - self._max_age
        return frozenset(
            path for path, file in files.items() if file.mtime is not None and file.mtime < oldest
        )

    def _add_up(self, now: _Export) -> Iterator[Family]:
        good = {path: file for path, file in now.files.items() if file.refusal is None}
        merged, conflicts = textmerge.merge(
            {_shown(path): file.families for path, file in good.items() if path not in now.stale},
            reserved=_OWN,
        )
        complaints = set(map(_complaint, conflicts))
        for path, file in now.files.items():
            if (refusal := file.refusal) is not None:
                complaints.add(Complaint(_shown(path), refusal.reason, str(refusal)))
            elif path in now.stale:
                age = f"was not written for more than {durations.format_duration(self._max_age)}"
                complaints.add(Complaint(_shown(path), "age", age))
        for path, text in now.unreadable.items():
            complaints.add(Complaint(_shown(path), "directory", text))
        self._complain(frozenset(complaints))
        yield from merged
        # Also of a file that is too old: its age is what one wants to see.
        times = [((_shown(path),), float(file.mtime or 0)) for path, file in sorted(good.items())]
        if times:
            yield METRICS.family("node_textfile_mtime_seconds", times)
        yield from _errors({complaint[:2] for complaint in complaints})

    def _complain(self, complaints: frozenset[Complaint]) -> None:
        for path, _, text in sorted(complaints - self._complaints):
            log.error("text file not exported", file=path, reason=text)
        for path in sorted({c.file for c in self._complaints} - {c.file for c in complaints}):
            log.info("text file exported again", file=path)
        self._complaints = complaints


def _complaint(conflict: Conflict) -> Complaint:
    return Complaint(conflict.file, conflict.reason, f"{conflict.metric}: {conflict.text}")


def _errors(rows: Collection[tuple[str, str]]) -> Iterator[Family]:
    """What the files' reasons amount to; no row for a file of which all is exported."""
    if rows:
        yield METRICS.family(_FILE_ERROR, ((row, 1.0) for row in sorted(rows)))
    yield METRICS.single(_ERROR, float(bool(rows)))


def _shown(path: str) -> str:
    """A path as a label value: file names are bytes, labels are UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
