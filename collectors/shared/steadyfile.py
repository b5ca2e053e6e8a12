"""Reads a file that may be written concurrently: consistent content, without blocking."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from collectors.interface.refusal import CollectorConfigError

_TRIES = 3


class FileStamp(NamedTuple):
    """Identifies the content of a file without reading it. The change time cannot be forged."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def stamp(status: os.stat_result) -> FileStamp:
    """Return the stamp of a file's status."""
    return FileStamp(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def read(path: str, *, limit: int, beneath: str = "") -> tuple[FileStamp, bytes]:
    """Return a regular file's stamp and consistent content. Raises CollectorConfigError for anything else.

    `beneath`: a directory's real path; files outside of it, reached by a symbolic link, are rejected.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else "unreadable"
        raise CollectorConfigError(reason, f"cannot be opened: {error.strerror}") from error
    try:
        # The path of the open file, so that replacing the link in between has no effect.
        if beneath and Path(beneath) not in Path(f"/proc/self/fd/{descriptor}").readlink().parents:
            raise CollectorConfigError("link", "is a symbolic link that leads out of its directory")
        return _read(descriptor, limit)
    except OSError as error:
        raise CollectorConfigError("unreadable", f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _read(descriptor: int, limit: int) -> tuple[FileStamp, bytes]:
    for _ in range(_TRIES):
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise CollectorConfigError("kind", "is not a regular file")
        if before.st_size > limit:
            raise CollectorConfigError("size", f"is larger than {limit} bytes")
        content = os.pread(descriptor, before.st_size + 1, 0)
        # The kernel returns less only at the end of a regular file, or beyond 2 GiB.
        if stamp(os.fstat(descriptor)) == stamp(before) and len(content) == before.st_size:
            return stamp(before), content
    raise CollectorConfigError("changing", "changes while it is read")
