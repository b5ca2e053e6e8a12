"""Detects changes of an SQLite database by its header: without SQLite, and without a lock that could block a writer."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared import steadyfile
from collectors.shared.steadyfile import FileStamp

_SIZE = 100
_MAGIC = b"SQLite format 3\0"
_WRITE_VERSION, _WAL = 18, 2


class Header(NamedTuple):
    """A value that every commit changes."""

    mark: FileStamp
    content: bytes
    """Includes the commit counter, for commits within one tick of the file's time."""


def read(path: Path) -> Header | None:
    """Return the current header; None if commits go to another file first (WAL).

    Raises SourceAbsentError if there is no database, or it is empty.
    """
    mark, content = _head(path)
    if not content:
        raise SourceAbsentError(f"{path}: empty, nothing has been recorded yet")
    if len(content) < _SIZE or not content.startswith(_MAGIC):
        raise CollectorError(f"{path}: not an SQLite database, or cut short")
    return None if content[_WRITE_VERSION] == _WAL else Header(mark, content)


def _head(path: Path) -> tuple[FileStamp, bytes]:
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceAbsentError(f"{path}: no such database") from error
    except OSError as error:
        raise CollectorError(f"{path}: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CollectorError(f"{path}: not a regular file")
        return steadyfile.stamp(status), os.pread(descriptor, _SIZE, 0)
    except OSError as error:
        raise CollectorError(f"{path}: {error.strerror}") from error
    finally:
        os.close(descriptor)
