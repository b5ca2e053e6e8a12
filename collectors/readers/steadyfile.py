"""Reading a file that somebody else may be writing at this moment, without mixing two moments and without hanging."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from collectors.base.refusal import CollectorConfigError

_TRIES = 3


class FileStamp(NamedTuple):
    """What tells one content of a path from another without reading it. The change time cannot be set by anybody."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def stamp(status: os.stat_result) -> FileStamp:
    """The mark of a file's status."""
    return FileStamp(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def read(path: str, *, limit: int, beneath: str = "") -> tuple[FileStamp, bytes]:
    """A regular file's content as it was at one moment, and its mark then. RefusedError for anything else.

    `beneath`: a directory's real path; RefusedError for a file outside of it, to which a symbolic link leads.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a writer, for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else "unreadable"
        raise CollectorConfigError(reason, f"cannot be opened: {error.strerror}") from error
    try:
        # The path of what was opened: a link that changes in between is of no use.
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
        # A read may be cut short by the kernel only at the end of a regular file, or past 2 GiB.
        if stamp(os.fstat(descriptor)) == stamp(before) and len(content) == before.st_size:
            return stamp(before), content
    raise CollectorConfigError("changing", "changes while it is read")
