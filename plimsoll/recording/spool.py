"""A folder with one OpenMetrics file per hour, within a number of bytes; the oldest files are deleted first."""

import datetime
import fcntl
import os
from pathlib import Path

from plimsoll.sizes import format_size
from plimsoll.text import SentenceError

_END = b"# EOF\n"
_SUFFIX = ".om"


class SpoolError(SentenceError):
    """Samples cannot be recorded; the message says what to do."""


class Spool:
    """The files of one recorder. A file that a crash cut in the middle of a line is repaired when it is opened again."""

    def __init__(self, folder: Path, prefix: str, *, most: int) -> None:
        """`prefix`: how names of its files begin, such as the node's name. `most`: bytes of all of them. Raises SpoolError."""
        self._folder = folder
        self._prefix = prefix.replace("/", "_")
        self._most = most
        self._name = ""
        self._file = -1
        self._size = 0
        self._others = 0
        """Bytes of the other files with this prefix."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpoolError(f"{folder} cannot be used: {error.strerror}") from error

    def write(self, at: float, text: bytes) -> None:
        """Append samples of a time (Unix seconds). They are on disk when this returns. Raises SpoolError."""
        hour = datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y%m%dT%HZ")
        name = f"{self._prefix}-{hour}{_SUFFIX}"
        try:
            if name != self._name:
                self.close()
                self._open(name)
            self._make_room(len(text))
            view = memoryview(text)
            while view:
                written = os.write(self._file, view)
                self._size += written
                view = view[written:]
            os.fsync(self._file)
        except OSError as error:
            raise SpoolError(
                f"{self._folder / name} cannot be written: {error.strerror}"
            ) from error

    def close(self) -> None:
        """End the current file."""
        if self._file >= 0:
            os.write(self._file, _END)
            os.close(self._file)
            self._file, self._name = -1, ""

    def _open(self, name: str) -> None:
        """Open the file of an hour; what was recorded in it before stays."""
        path = self._folder / name
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(file)
            raise SpoolError(
                f"{path} is being written by another process: name another folder by --dir"
            ) from error
        self._file, self._name = file, name
        content = path.read_bytes()
        content = content[: content.rfind(b"\n") + 1].removesuffix(_END)
        os.ftruncate(self._file, len(content))
        self._size = len(content)
        self._others = sum(path.stat().st_size for path in self._files())

    def _files(self) -> list[Path]:
        """Return the other files with this prefix, the oldest first."""
        paths = sorted(self._folder.glob(f"*{_SUFFIX}"))
        prefix = f"{self._prefix}-"
        return [
            path
            for path in paths
            if path.name != self._name and path.name.rpartition("-")[0] + "-" == prefix
        ]

    def _make_room(self, size: int) -> None:
        needed = self._size + size + len(_END)
        if needed > self._most:
            raise SpoolError(
                f"{self._name} would exceed {format_size(self._most)}: raise --max-size, or record fewer metrics with --metrics"
            )
        for path in self._files() if needed + self._others > self._most else ():
            if needed + self._others <= self._most:
                break
            self._others -= path.stat().st_size
            path.unlink()
