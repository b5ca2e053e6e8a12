"""The logs that monitors read: the kernel's log, files, and journald by journalctl.

Each source returns the lines that are new since its last read, with their times, and its position, which a restart continues
from. A source whose log vanishes is opened again.
"""

import json
import os
import selectors
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from collectors.shared.problems.filelines import LONGEST, LineFormat, decoded
from plimsoll.kernellog import readers
from plimsoll.kernellog.handover import SocketReader
from plimsoll.kernellog.readers import KernelLogError, PacedReader, Position, Reader

_LINES_PER_SECOND = 10_000
_READ = 256 << 10
_FIRST_READ = 8 << 20
"""Bytes before a file's end from which it is read the first time."""
_PAUSE = 0.25
_SETTLED = 1.0
_FEW = 1000
"""Lines in a row that do not fit, after which a log whose lines fitted does no more."""


class SourceError(Exception):
    """A log cannot be read; the text says why."""


class Line(NamedTuple):
    """A line of a log."""

    text: str
    at: float
    """Unix seconds."""
    of_kernel: bool = False


class Lines(NamedTuple):
    """What is new, and how many lines before it were lost."""

    lines: list[Line]
    lost: int = 0
    unparsed: int = 0
    """Lines that do not fit the configuration."""
    odd: str = ""
    """One of those, and why."""


class Source(Protocol):
    """A log."""

    continued: bool
    """Whether reading continues where an earlier process stopped: then lines count however old they are."""

    def read(self, timeout: float) -> Lines:
        """Return what is new; wait for it about `timeout` seconds. Raises SourceError."""
        ...

    def position(self) -> Any:
        """Return where to continue, as JSON; None if unknown."""
        ...


class KernelSource:
    """The kernel's log: by the socket of `plimsoll-agent kernel-log`, or directly."""

    def __init__(self, where: str, procfs: Path, position: Any) -> None:
        """`where`: `unix:PATH`, a device or file, or nothing for /dev/kmsg or syslog(2)."""
        self._where = where
        self._procfs = procfs
        self._position = _kernel_position(position)
        self.continued = self._position is not None
        self._reader: Reader | None = None
        self._lies_there = True

    def read(self, timeout: float) -> Lines:
        """Return what is new; wait for it about `timeout` seconds. Raises SourceError."""
        try:
            if self._reader is None:
                self._reader, self._lies_there = self._open(), True
            batch = self._reader.read(min(timeout, self._settled) if self._lies_there else timeout)
            if self._lies_there and not batch.records:
                self._lies_there = False
                lost, batch = batch.lost, self._reader.read(timeout)
                batch = batch._replace(lost=batch.lost + lost)
        except KernelLogError as error:
            self._close()
            raise SourceError(str(error)) from error
        # printk's clock may be behind the monotonic one, such as after a suspension: what comes now is of now. What lay there
        # has only printk's clock.
        now = time.time()
        boot = now - time.monotonic()
        lines = [
            Line(r.text, boot + r.microseconds / 1e6 if self._lies_there else now, r.of_kernel)
            for r in batch.records
        ]
        if batch.records:
            last = batch.records[-1]
            self._position = Position(self._boot_id, last.sequence, last.microseconds)
        return Lines(lines, batch.lost)

    @property
    def _settled(self) -> float:
        """Seconds without a record after which all that lay there has been read; the socket's server needs a moment."""
        return _SETTLED if self._where.startswith("unix:") else 0.0

    def _open(self) -> Reader:
        self._boot_id = readers.boot_id(self._procfs)
        after = (
            self._position if self._position and self._position.boot_id == self._boot_id else None
        )
        if self._where.startswith("unix:"):
            return SocketReader(Path(self._where.removeprefix("unix:")), after)
        path = Path(self._where) if self._where else None
        return PacedReader(readers.open_reader(path, after), _LINES_PER_SECOND)

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def position(self) -> Any:
        """Return the last record's boot, number and time."""
        return self._position


def _kernel_position(position: Any) -> Position | None:
    match position:
        case [str(boot), int(sequence), int(microseconds)]:
            return Position(boot, sequence, microseconds)
        case _:
            return None


class FileSource:
    """A log file, which may be rotated."""

    def __init__(self, path: Path, config: Mapping[str, str], position: Any) -> None:
        self._path = path
        self._format = LineFormat(config)
        self._inode, self._offset = -1, 0
        self._fitted = False
        self._in_a_row = 0
        self.continued = False
        match position:
            case [int(inode), int(offset)]:
                self._inode, self._offset, self.continued = inode, offset, True
            case _:
                pass

    def read(self, timeout: float) -> Lines:
        """Return what is new; wait for it about `timeout` seconds. Raises SourceError."""
        end = time.monotonic() + timeout
        while not (data := self._new()) and time.monotonic() < end:
            time.sleep(_PAUSE)
        lines, unparsed, odd, now = [], 0, "", datetime.now().astimezone()
        for raw in data.split(b"\n"):
            if not raw.strip():
                continue
            text = decoded(raw)
            try:
                lines.append(Line(*self._format.parse(text, now)))
                self._fitted, self._in_a_row = True, 0
            except (ValueError, OverflowError) as error:
                unparsed, self._in_a_row = unparsed + 1, self._in_a_row + 1
                odd = odd or f"{error}: {text[:200]!r}"
        if len(lines) > _LINES_PER_SECOND:
            time.sleep(1)
        return Lines(lines, unparsed=unparsed, odd=odd)

    @property
    def fits(self) -> bool:
        """Return whether lines fit the configuration, as far as known."""
        return self._in_a_row == 0 or (self._fitted and self._in_a_row < _FEW)

    def _new(self) -> bytes:
        try:
            with open(self._path, "rb", opener=_opened) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise SourceError(
                        f"{self._path}: not a regular file; give the path of a log file"
                    )
                if status.st_ino != self._inode or status.st_size < self._offset:
                    first = self._inode == -1
                    self._inode = status.st_ino
                    self._offset = max(0, status.st_size - _FIRST_READ) if first else 0
                file.seek(self._offset)
                data = file.read(_READ)
        except OSError as error:
            raise SourceError(f"{self._path}: {error.strerror}") from error
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == _READ:
            whole = len(data)  # no line is that long
        self._offset += whole
        return data[:whole]

    def position(self) -> Any:
        """Return the file's inode and offset."""
        return [self._inode, self._offset]


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


class JournalSource:
    """Journald's entries of one syslog identifier, by `journalctl`."""

    def __init__(
        self,
        identifier: str,
        directory: Path | None,
        position: Any,
        find: Callable[[str], str | None] = shutil.which,
    ) -> None:
        self._identifier = identifier
        self._directory = directory
        self._cursor = position if isinstance(position, str) else None
        self.continued = self._cursor is not None
        self._find = find
        self._process: subprocess.Popen[bytes] | None = None
        self._data = b""

    def read(self, timeout: float) -> Lines:
        """Return what is new; wait for it about `timeout` seconds. Raises SourceError."""
        if self._process is None:
            self._process = self._start()
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                return Lines([])
        piece = os.read(self._process.stdout.fileno(), _READ)
        if not piece:
            self._process.stdout.close()
            status = self._process.wait()
            self._process, self._data = None, b""
            raise SourceError(f"journalctl ended with status {status}")
        whole, _, rest = (self._data + piece).rpartition(b"\n")
        self._data = rest if len(rest) < _READ else b""
        return Lines(list(self._lines(whole)))

    def _start(self) -> "subprocess.Popen[bytes]":
        program = self._find("journalctl")
        if program is None:
            raise SourceError(
                "journalctl is not installed, and journald's files are binary: read a log file by a `filelog` monitor, or let the "
                "host's syslog daemon write one"
            )
        where = [f"--directory={self._directory}"] if self._directory is not None else []
        begin = [f"--after-cursor={self._cursor}"] if self._cursor else ["--since=-1h"]
        command = [program, "-o", "json", "-f", "--no-pager", "-n", "all", "-t", self._identifier, *where, *begin]  # fmt: skip
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def _lines(self, data: bytes) -> Iterator[Line]:
        for text in data.splitlines():
            try:
                entry = json.loads(text)
                message, at = entry["MESSAGE"], int(entry["__REALTIME_TIMESTAMP"]) / 1e6
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue
            if isinstance(message, list):  # not UTF-8
                message = bytes(b & 255 for b in message if isinstance(b, int)).decode(
                    "utf-8", "replace"
                )
            self._cursor = str(entry.get("__CURSOR") or "") or self._cursor
            yield Line(str(message)[:LONGEST], at)

    def position(self) -> Any:
        """Return the last entry's cursor."""
        return self._cursor
