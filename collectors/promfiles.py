"""The `*.prom` files of some directories: each read when it changed, with patience for one that is just being written."""

import glob
import os
import stat
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from collectors import promtext, steadyfile
from collectors.promtext import TextFamily
from collectors.refusal import RefusedError
from collectors.steadyfile import Mark

_NANOSECONDS = 1_000_000_000
# File times advance in ticks of up to 10 ms: a file that changed within the last few may change again and keep its mark.
_SETTLED = 0.05


@dataclass(frozen=True, slots=True)
class PromFile:
    """What is known about one file: its families, or why there are none."""

    mark: Mark | None = None
    families: tuple[TextFamily, ...] = ()
    refusal: RefusedError | None = None
    settled: bool = False
    held_since: float | None = None

    @property
    def mtime(self) -> int | None:
        """Whole seconds, as node_exporter has them."""
        return None if self.mark is None else self.mark.mtime_ns // _NANOSECONDS


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files there are, and the directories that could not be listed with the reason."""

    files: dict[str, os.stat_result | None]
    unreadable: dict[str, str]


class PromFiles:
    """Reads the files of these directories, which may be glob patterns."""

    def __init__(
        self,
        directories: tuple[str, ...],
        *,
        limit: int,
        clock: Callable[[], float] = time.time,
        patience: float = 1.0,
    ) -> None:
        """`limit`: bytes that a file may have. `patience`: how long a file may stay doubtful, rewritten again and again,
        before its last good content is dropped.
        """
        self._directories = directories
        self._limit = limit
        self._clock = clock
        self._patience = patience
        self._files: dict[str, PromFile] = {}

    def read(self) -> tuple[Mapping[str, PromFile], Mapping[str, str]]:
        """All files, by path; those that did not change are the same objects as before. And what could not be listed."""
        listing = _list(self._directories)
        self._files = {path: self._file(path, status) for path, status in listing.files.items()}
        return self._files, listing.unreadable

    def fingerprint(self) -> Hashable:
        """Names and marks of all files, and which of them are so young that they want a second look."""
        listing = _list(self._directories)
        files: list[Hashable] = []
        for path, status in listing.files.items():
            found = None if status is None else steadyfile.mark(status)
            files.append((path, found, found is not None and self._is_young(found)))
        return tuple(files), tuple(listing.unreadable)

    def _file(self, path: str, status: os.stat_result | None) -> PromFile:
        before = self._files.get(path, _UNKNOWN)
        if before.settled and status is not None and steadyfile.mark(status) == before.mark:
            return before
        now = self._load(path, status)
        doubtful = now.refusal or not now.families
        if doubtful and not now.settled and before.families:
            since = self._clock() if before.held_since is None else before.held_since
            if self._clock() - since < self._patience:
                return replace(before, settled=False, held_since=since)
        return now

    def _load(self, path: str, status: os.stat_result | None) -> PromFile:
        if status is None:
            gone = RefusedError("missing", "cannot be opened: No such file or directory")
            return PromFile(refusal=gone, settled=True)
        found = steadyfile.mark(status)
        try:
            # Not left to the reader: to open a device may be to set it off.
            if not stat.S_ISREG(status.st_mode):
                raise RefusedError("kind", "is not a regular file")
            found, content = steadyfile.read(path, limit=self._limit)
            return PromFile(found, promtext.parse(content), settled=not self._is_young(found))
        except RefusedError as refusal:
            return PromFile(found, refusal=refusal, settled=not self._is_young(found))

    def _is_young(self, found: Mark) -> bool:
        return abs(self._clock() - found.ctime_ns / _NANOSECONDS) < _SETTLED


_UNKNOWN = PromFile()


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
        if not glob.has_magic(pattern):
            matches = [pattern]
        else:
            in_python = pattern.replace("[^", "[!")  # Go's spelling of the same
            matches = sorted(glob.glob(in_python, include_hidden=True)) or [pattern]  # noqa: PTH207 (patterns may be absolute)
        for found in matches:
            directory = os.path.normpath(found)
            if directory not in seen:
                seen.add(directory)
                yield directory
