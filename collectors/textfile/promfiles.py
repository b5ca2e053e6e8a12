"""Reads `*.prom` files: each when it has changed, with retries for one that is being written."""

import glob
import os
import stat
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from collectors.interface.refusal import CollectorConfigError
from collectors.shared import steadyfile
from collectors.shared.steadyfile import FileStamp
from collectors.textfile.formats import promtext
from collectors.textfile.formats.promtext import MOST_LABELS, LabelsError, TextFamily

_NANOSECONDS = 1_000_000_000
# File times advance in ticks of up to 10 ms: a file changed within the last few may change again and keep its stamp.
_SETTLED = 0.05


@dataclass(frozen=True, slots=True)
class PromFile:
    """State of one file: its families, or why there are none."""

    mark: FileStamp | None = None
    families: tuple[TextFamily, ...] = ()
    refusal: CollectorConfigError | None = None
    settled: bool = False
    held_since: float | None = None
    samples: int = 0
    """Number of its samples; if rejected for its samples, the minimum it would need."""
    labels: int = 0
    """Number of their labels; if rejected for its labels, the minimum it would need."""

    @property
    def mtime(self) -> int | None:
        """The modification time in whole seconds, as in node_exporter."""
        return None if self.mark is None else self.mark.mtime_ns // _NANOSECONDS


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits per file and in total."""

    file_bytes: int
    total_bytes: int
    total_samples: int


@dataclass(slots=True)
class _Remaining:
    """What is left of the limits for the following files."""

    bytes: int
    samples: int
    labels: int

    def take(self, file: PromFile) -> None:
        """Subtract an exported file."""
        if file.families and file.mark is not None:
            self.bytes -= file.mark.size
            self.samples -= file.samples
            self.labels -= file.labels

    def has(self, file: PromFile) -> bool:
        """Return whether a file that was read before still fits."""
        if not file.families or file.mark is None:
            return file.refusal is None or file.refusal.reason not in {"samples", "size"}
        return file.mark.size <= self.bytes and not self.lacks(file)

    def lacks(self, file: PromFile) -> bool:
        """Return whether a file is known to have too many samples or labels."""
        return file.samples > self.samples or file.labels > self.labels


@dataclass(frozen=True, slots=True)
class _Listing:
    """Existing files, and directories that could not be listed with the reason."""

    files: dict[str, os.stat_result | None]
    homes: dict[str, str]
    """The real path of each file's directory."""
    unreadable: dict[str, str]


class PromFiles:
    """Reads the files of some directories, which may be globs."""

    def __init__(
        self,
        directories: tuple[str, ...],
        *,
        limits: Limits,
        clock: Callable[[], float] = time.time,
        patience: float = 1.0,
    ) -> None:
        """`patience`: how long a file may keep changing before its last good content is dropped."""
        self._directories = directories
        self._limits = limits
        self._clock = clock
        self._patience = patience
        self._files: dict[str, PromFile] = {}

    def read(self) -> tuple[Mapping[str, PromFile], Mapping[str, str]]:
        """Return all files by path, and directories that could not be listed. Unchanged files are the same objects as before."""
        listing = _list(self._directories)
        samples = self._limits.total_samples
        remaining = _Remaining(self._limits.total_bytes, samples, MOST_LABELS * samples)
        files: dict[str, PromFile] = {}
        for path, status in listing.files.items():
            files[path] = self._file(path, status, listing.homes[path], remaining)
            remaining.take(files[path])
        self._files = files
        return files, listing.unreadable

    def fingerprint(self) -> Hashable:
        """Return names and stamps of all files, and which are so recent that they must be checked again; None without directories."""
        if not self._directories:
            return None
        listing = _list(self._directories)
        files: list[Hashable] = []
        for path, status in listing.files.items():
            stamp = None if status is None else steadyfile.stamp(status)
            files.append((path, stamp, stamp is not None and self._is_recent(stamp)))
        return tuple(files), tuple(listing.unreadable)

    def _file(
        self, path: str, status: os.stat_result | None, home: str, remaining: _Remaining
    ) -> PromFile:
        before = self._files.get(path, _UNKNOWN)
        if before.settled and status is not None and steadyfile.stamp(status) == before.mark:
            if remaining.has(before):
                return before
            if remaining.lacks(before):  # known without reading it again
                return replace(before, families=(), refusal=_too_many_samples())
        now = self._load(path, status, home, remaining)
        doubtful = now.refusal or not now.families
        if doubtful and not now.settled and before.families and remaining.has(before):
            since = self._clock() if before.held_since is None else before.held_since
            if self._clock() - since < self._patience:
                return replace(before, settled=False, held_since=since)
        return now

    def _load(
        self, path: str, status: os.stat_result | None, home: str, remaining: _Remaining
    ) -> PromFile:
        if status is None:
            gone = CollectorConfigError("missing", "cannot be opened: No such file or directory")
            return PromFile(refusal=gone, settled=True)
        stamp = steadyfile.stamp(status)
        try:
            # Checked before opening: opening a device may have effects.
            if not stat.S_ISREG(status.st_mode):
                raise CollectorConfigError("kind", "is not a regular file")
            limit = min(self._limits.file_bytes, remaining.bytes)
            stamp, content = steadyfile.read(path, limit=limit, beneath=home)
            families = _parse(content, remaining)
        except CollectorConfigError as error:
            # Never raised: a traceback would keep the parser's frames, with all that was read.
            refusal = CollectorConfigError(error.reason, str(error))
            settled = not self._is_recent(stamp)
            if isinstance(error, LabelsError):
                return PromFile(stamp, (), refusal, settled, labels=remaining.labels + 1)
            samples = remaining.samples + 1 if refusal.reason == "samples" else 0
            return PromFile(stamp, (), refusal, settled, samples=samples)
        samples = sum(len(family.samples) for family in families)
        labels = sum(len(sample.labels) for family in families for sample in family.samples)
        settled = not self._is_recent(stamp)
        return PromFile(stamp, families, settled=settled, samples=samples, labels=labels)

    def _is_recent(self, stamp: FileStamp) -> bool:
        return abs(self._clock() - stamp.ctime_ns / _NANOSECONDS) < _SETTLED


def _parse(content: bytes, remaining: _Remaining) -> tuple[TextFamily, ...]:
    return promtext.parse(
        content, most_samples=remaining.samples, most_labels=max(remaining.labels, 0)
    )


_UNKNOWN = PromFile()


def _too_many_samples() -> CollectorConfigError:
    return CollectorConfigError(
        "samples", "exceeds the samples left of --collector.textfile.max-samples"
    )


def _list(directories: tuple[str, ...]) -> _Listing:
    listing = _Listing({}, {}, {})
    for directory in _expand(directories):
        try:
            with os.scandir(directory) as scanned:
                names = sorted(
                    (entry for entry in scanned if entry.name.endswith(".prom")),
                    key=lambda entry: entry.name,
                )
        except OSError as error:
            listing.unreadable[directory] = f"directory cannot be read: {error.strerror}"
            continue
        home = os.path.realpath(directory)
        for entry in names:
            listing.files[entry.path] = _status(entry)
            listing.homes[entry.path] = home
    return listing


def _status(entry: "os.DirEntry[str]") -> os.stat_result | None:
    """Return a file's status, following symbolic links; None for a dangling link or a removed file."""
    try:
        return entry.stat()
    except OSError:
        return None


def _expand(directories: tuple[str, ...]) -> Iterator[str]:
    """Yield each directory once; a glob without matches is taken as a directory's name, and so reported."""
    seen: set[str] = set()
    for pattern in directories:
        if not glob.has_magic(pattern):
            matches = [pattern]
        else:
            in_python = pattern.replace("[^", "[!")  # Go's syntax for it
            matches = sorted(glob.glob(in_python, include_hidden=True)) or [pattern]  # noqa: PTH207 (patterns may be absolute)
        for matched in matches:
            directory = os.path.normpath(matched)
            if directory not in seen:
                seen.add(directory)
                yield directory
