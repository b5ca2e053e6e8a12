"""Opens files that a user names: regular ones only, since a FIFO waits for a writer and a device may have no end."""

import errno
import os
import stat
import sys
from typing import BinaryIO

from plimsoll.sizes import format_size

LARGEST = 16 << 20
"""Maximum size in bytes of a text that is read as a whole: YAML takes seconds and a hundred times its size in memory."""

_NOT_REGULAR = "it is not a regular file: save its content to one, or pipe it to a command that reads - as standard input"


def open_binary(name: str) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also for a FIFO, a socket or a device."""
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, _NOT_REGULAR, name)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_text(name: str, *, largest: int = LARGEST) -> str:
    """Return the text of a regular file, or of standard input for `-`.

    Raises OSError, also for a file of more than `largest` bytes; UnicodeDecodeError.
    """
    if name == "-":
        text = sys.stdin.read(largest + 1)
        size = len(text)
    else:
        with open_binary(name) as file:
            content = file.read(largest + 1)
        size = len(content)
        text = "" if size > largest else content.decode().replace("\r\n", "\n")
    if size > largest:
        reason = f"it is larger than {format_size(largest)}: split it into several files"
        raise OSError(errno.EFBIG, reason, name)
    return text
