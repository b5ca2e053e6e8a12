"""Whether an SQLite database has changed, told by its header: without SQLite, and without a lock that a writer could meet."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from collectors.base.sample import CollectorError, SourceAbsentError
from collectors.readers import steadyfile
from collectors.readers.steadyfile import FileStamp

_SIZE = 100
_MAGIC = b"SQLite format 3\0"
_WRITE_VERSION, _WAL = 18, 2


class Header(NamedTuple):
    """What no commit leaves as it is."""

    mark: FileStamp
    content: bytes
    """With a counter of commits, for those that follow each other faster than the file's times tell."""


def read(path: Path) -> Header | None:
    """The header of this moment; None where commits go to another file first (WAL).

    SourceAbsentError where there is no database, or nothing in it yet.
    """
    mark, content = _head(path)
    if not content:
        raise SourceAbsentError(f"{path}: empty, nothing has been recorded yet")
    if len(content) < _SIZE or not content.startswith(_MAGIC):
        raise CollectorError(f"{path}: not an SQLite database, or cut short")
    return None if content[_WRITE_VERSION] == _WAL else Header(mark, content)


def _head(path: Path) -> tuple[FileStamp, bytes]:
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a writer, for ever.
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
