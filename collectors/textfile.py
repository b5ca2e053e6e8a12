"""Metrics that other programs and people leave in `*.prom` files: what cron jobs, hardware checks and operators know.

What a reader may rely on, whoever writes the files and however:
- A value that is exported was a whole line of its file. A file that breaks off in a line is left out as a whole: `1` may be
  the beginning of `12`. So is a file with anything wrong in it, and one that changes while it is read.
- A file replaced by rename(2) shows either its old or its new content, never anything between. Writers should do that.
- A file written in place (`echo ... > x.prom`) is empty for a moment, or broken off. While it is that young, the content
  before counts; it is not forgotten for an instant and remembered again.
- A program that writes in place and in several pieces can be seen with some of its lines only, if it pauses between lines.
  Those lines are right, the others are absent. Nothing on the outside can tell; rename(2) avoids it.
- One bad file hurts no other. It sets node_textfile_scrape_error to 1, has no mtime, and a log line says why, once.
"""

import glob
import os
import stat
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from collectors import promtext, steadyfile
from collectors.metric import Metric, Table
from collectors.promtext import TextFamily
from collectors.sample import CollectorError, Family
from collectors.steadyfile import Mark
from collectors.textmerge import merge
from plimsoll import logs
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
)
_OWN = frozenset(metric.name for metric in METRICS)
_MAX_BYTES = 16 << 20
_NANOSECONDS = 1_000_000_000
# File times advance in ticks of up to 10 ms: a file that changed within the last few may change again and keep its mark.
_SETTLED = 0.05


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    textfile_directories: tuple[str, ...] = option(
        "collector.textfile.directory",
        (),
        "directory whose *.prom files are read; may be a glob (repeatable)",
        metavar="DIR",
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is known about one file."""

    mark: Mark | None = None
    families: tuple[TextFamily, ...] = ()
    problem: str = ""
    settled: bool = False
    held_since: float | None = None


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files there are, and the directories that could not be listed with the reason."""

    files: dict[str, os.stat_result | None]
    unreadable: dict[str, str]


class TextFile:
    """The `textfile` collector."""

    def __init__(
        self,
        options: Options,
        *,
        clock: Callable[[], float] = time.time,
        patience: float = 1.0,
    ) -> None:
        """`patience`: how long a file may stay doubtful, rewritten again and again, before its last good content is dropped."""
        self._directories = options.textfile_directories
        self._clock = clock
        self._patience = patience
        self._entries: dict[str, _Entry] = {}
        self._complaints: frozenset[tuple[str, str]] = frozenset()

    def collect(self) -> Iterator[Family]:
        """Read what changed since the last time; the rest is remembered."""
        listing = _list(self._directories)
        entries = {path: self._entry(path, status) for path, status in listing.files.items()}
        self._entries = entries
        good = {_shown(path): entry for path, entry in entries.items() if not entry.problem}
        families, conflicts = merge(
            {path: entry.families for path, entry in good.items()}, reserved=_OWN
        )
        complaints = {(path, entry.problem) for path, entry in entries.items() if entry.problem}
        complaints |= {(c.file, f"{c.metric}: {c.reason}") for c in conflicts}
        complaints |= set(listing.unreadable.items())
        self._complain(frozenset(complaints))
        yield from families
        times = [
            ((path,), float(entry.mark.mtime_ns // _NANOSECONDS))
            for path, entry in sorted(good.items())
            if entry.mark
        ]
        if times:
            yield METRICS.family("node_textfile_mtime_seconds", times)
        yield METRICS.single("node_textfile_scrape_error", float(bool(complaints)))

    def fingerprint(self) -> Hashable:
        """Names and marks of all files, and which of them are so young that they want a second look."""
        listing = _list(self._directories)
        files: list[Hashable] = []
        for path, status in listing.files.items():
            found = None if status is None else steadyfile.mark(status)
            files.append((path, found, found is not None and self._is_young(found)))
        return tuple(files), tuple(listing.unreadable)

    def _entry(self, path: str, status: os.stat_result | None) -> _Entry:
        before = self._entries.get(path, _Entry())
        if before.settled and status is not None and steadyfile.mark(status) == before.mark:
            return before
        now = self._load(path, status)
        doubtful = now.problem or not now.families
        if doubtful and not now.settled and before.families:
            since = self._clock() if before.held_since is None else before.held_since
            if self._clock() - since < self._patience:
                return replace(before, settled=False, held_since=since)
        return now

    def _load(self, path: str, status: os.stat_result | None) -> _Entry:
        if status is None:
            return _Entry(problem="cannot be opened: No such file or directory", settled=True)
        found = steadyfile.mark(status)
        try:
            if not stat.S_ISREG(status.st_mode):
                raise CollectorError("is not a regular file")
            found, content = steadyfile.read(path, limit=_MAX_BYTES)
            return _Entry(found, promtext.parse(content), settled=not self._is_young(found))
        except CollectorError as error:
            return _Entry(found, problem=str(error), settled=not self._is_young(found))

    def _is_young(self, found: Mark) -> bool:
        return abs(self._clock() - found.ctime_ns / _NANOSECONDS) < _SETTLED

    def _complain(self, complaints: frozenset[tuple[str, str]]) -> None:
        for path, reason in sorted(complaints - self._complaints):
            log.error("text file not exported", file=path, reason=reason)
        for path in sorted({p for p, _ in self._complaints} - {p for p, _ in complaints}):
            log.info("text file exported again", file=path)
        self._complaints = complaints


def _list(directories: tuple[str, ...]) -> _Listing:
    listing = _Listing({}, {})
    for directory in _expand(directories):
        try:
            with os.scandir(directory) as found:
                names = sorted(
                    (entry for entry in found if entry.name.endswith(".prom")),
                    key=lambda entry: entry.name,
                )
        except OSError as error:
            listing.unreadable[directory] = f"directory cannot be read: {error.strerror}"
            continue
        for entry in names:
            listing.files[entry.path] = _status(entry)
    return listing


def _status(entry: "os.DirEntry[str]") -> os.stat_result | None:
    """A file's status, through symbolic links; None where a link leads nowhere or the file is gone."""
    try:
        return entry.stat()
    except OSError:
        return None


def _expand(directories: tuple[str, ...]) -> Iterator[str]:
    """Each directory once; a pattern that fits nothing is taken for a directory's name, and so reported."""
    seen: set[str] = set()
    for pattern in directories:
        for found in sorted(glob.glob(pattern, include_hidden=True)) or [pattern]:  # noqa: PTH207 (patterns may be absolute)
            directory = str(Path(found))
            if directory not in seen:
                seen.add(directory)
                yield directory


def _shown(path: str) -> str:
    """A path as a label value: file names are bytes, labels are UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
