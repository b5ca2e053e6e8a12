"""Metrics of other programs from `*.prom` files in the text format, written by cron jobs, hardware checks and operators.

Guarantees, however files are written:
- An exported value was a whole line of its file. A file that ends within a line is rejected completely, since `1` may be the
  start of `12`; so is a file with any other error, and one that changes while it is read.
- A file replaced by rename(2) shows its old or its new content. Writers should use it.
- A file written in place (`echo ... > x.prom`) is briefly empty or truncated. During that time, its previous content is
  exported.
- A program that writes in place in several pieces and pauses between lines can be seen with a part of its lines. This cannot
  be detected; rename(2) avoids it.
- An invalid file does not affect others. Every omission sets node_textfile_scrape_error to 1, has a row in
  node_textfile_file_error with the file and the reason (a key of `refusal.REASONS`), and is logged once.

A file with an error is omitted as a whole and has no mtime. In a conflict over a metric, the file with lower precedence loses
that metric only. Precedence: collectors, then directories in the order of the flags, then files by name. Files whose TYPE and
HELP agree, or that omit HELP, are merged. Only regular files are opened: a FIFO would block, and opening a device may have
effects.
"""

import os
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, Omission
from collectors.textfile.formats import textmerge
from collectors.textfile.formats.textmerge import Conflict
from collectors.textfile.promfiles import Limits, PromFile, PromFiles
from plimsoll import durations, flags, logs
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
        "maximum size of a file; a larger one is an error and is not read",
        metavar="SIZE",
        parse=flags.size_or_zero,
    )
    textfile_max_total_size: int = option(
        "collector.textfile.max-total-size",
        4 << 20,
        "maximum bytes of all files together, in the order of directories and names; a file above it is an error and is not read",
        metavar="SIZE",
        parse=flags.size_or_zero,
    )
    textfile_max_samples: int = option(
        "collector.textfile.max-samples",
        20_000,
        "maximum samples of all files together, in the same order; a file above it is an error",
        metavar="NUMBER",
        parse=flags.count_or_zero,
    )
    textfile_max_age: float = option(
        "collector.textfile.max-age",
        0.0,
        "maximum age of a file; an older one is an error and is not exported; 0 for any age",
        metavar="DURATION",
        parse=durations.duration,
    )


@dataclass(frozen=True, slots=True)
class _Export:
    """The families of some files; reused while the files are unchanged."""

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
        """`patience`: see `PromFiles`."""
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
        self._omissions: frozenset[Omission] = frozenset()
        self._conflicts: frozenset[Omission] = frozenset()
        """Those that were logged."""
        self._in_conflict: frozenset[Omission] = frozenset()
        """Those since the files changed."""

    def collect(self) -> Sequence[Family]:
        """Read files that have changed; reuse the rest."""
        files, unreadable = self._files.read()
        now = _Export(files, unreadable, self._stale(files))
        if self._last is None or replace(self._last, families=()) != now:
            self._last = replace(now, families=tuple(self._merged(now)))
            self._in_conflict = frozenset()
        return self._last.families

    def without_duplicates(
        self, own: Sequence[Family], others: Mapping[str, Family]
    ) -> Sequence[Family]:
        """Return the families without series that others export; report and log what was omitted."""
        if not any(family.name in others for family in own):
            return own
        kept, conflicts = textmerge.beside(own, others)
        conflicts_with_others = frozenset(map(_omission, conflicts))
        for conflict in sorted(conflicts_with_others - self._conflicts):
            log.error(
                "metric of a text file not exported", file=conflict.file, reason=conflict.text
            )
        self._conflicts |= conflicts_with_others
        self._in_conflict |= conflicts_with_others
        if not conflicts_with_others:
            return kept
        rows = {conflict[:2] for conflict in conflicts_with_others}
        for family in kept:
            if family.name == _FILE_ERROR:
                rows |= {(s.labels[0][1], s.labels[1][1]) for s in family.samples}
        return [*(f for f in kept if f.name not in {_FILE_ERROR, _ERROR}), *_errors(rows)]

    def fingerprint(self) -> Hashable:
        """Return a value that changes with the files; None without directories."""
        return self._files.fingerprint()

    def omissions(self) -> Sequence[Omission]:
        """Return what is not exported, sorted by file; reasons are keys of `refusal.REASONS`."""
        return sorted(self._omissions | self._in_conflict)

    def _stale(self, files: Mapping[str, PromFile]) -> frozenset[str]:
        if not self._max_age:
            return frozenset()
        oldest = self._clock() - self._max_age
        return frozenset(
            path for path, file in files.items() if file.mtime is not None and file.mtime < oldest
        )

    def _merged(self, now: _Export) -> Iterator[Family]:
        good = {path: file for path, file in now.files.items() if file.refusal is None}
        merged, conflicts = textmerge.merge(
            {_shown(path): file.families for path, file in good.items() if path not in now.stale},
            reserved=_OWN,
        )
        omissions = set(map(_omission, conflicts))
        for path, file in now.files.items():
            if (refusal := file.refusal) is not None:
                omissions.add(Omission(_shown(path), refusal.reason, str(refusal)))
            elif path in now.stale:
                age = f"was not written for more than {durations.format_duration(self._max_age)}"
                omissions.add(Omission(_shown(path), "age", age))
        for path, text in now.unreadable.items():
            omissions.add(Omission(_shown(path), "directory", text))
        self._log_changes(frozenset(omissions))
        yield from merged
        # Also for a file that is too old, to show its age.
        times = [((_shown(path),), float(file.mtime or 0)) for path, file in sorted(good.items())]
        if times:
            yield METRICS.family("node_textfile_mtime_seconds", times)
        yield from _errors({omission[:2] for omission in omissions})

    def _log_changes(self, omissions: frozenset[Omission]) -> None:
        for path, _, text in sorted(omissions - self._omissions):
            log.error("text file not exported", file=path, reason=text)
        for path in sorted({c.file for c in self._omissions} - {c.file for c in omissions}):
            log.info("text file exported again", file=path)
        self._omissions = omissions


def _omission(conflict: Conflict) -> Omission:
    return Omission(conflict.file, conflict.reason, f"{conflict.metric}: {conflict.text}")


def _errors(rows: Collection[tuple[str, str]]) -> Iterator[Family]:
    """Yield the error metrics; files that are exported completely have no row."""
    if rows:
        yield METRICS.family(_FILE_ERROR, ((row, 1.0) for row in sorted(rows)))
    yield METRICS.single(_ERROR, float(bool(rows)))


def _shown(path: str) -> str:
    """Return a path as a label value: file names are bytes, labels are UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


ENTRY = Entry(
    build=lambda _, options: TextFile(options),
    metrics=METRICS,
    about="*.prom files",
    options=Options,
    open_ended=True,
)
