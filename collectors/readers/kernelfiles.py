"""Files that the kernel makes up when they are read, kept open: to read such a file again costs a tenth of opening it.

A file of procfs or sysfs is made up anew by each read from its beginning. What is on a disk may be replaced by another
file of the same name, so that is opened each time. They are told apart by what they say of their size: that of a file on a
disk is what is read from it.
"""

import errno
import os
import resource
import time
from collections.abc import Callable

_CHUNK = 1 << 16
_PAGE = 4096  # what an attribute of sysfs may have at most, and says to have
# The device, the process or the module went away; another one may have come in its place.
_GONE = frozenset({errno.ENODEV, errno.ESRCH, errno.EIO, errno.ENOENT, errno.ENXIO})
_UNUSED = 600.0  # seconds after which a file that nobody reads any more may go


class _Held:
    """An open file, closed when the last who uses it lets go."""

    __slots__ = ("descriptor", "used")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.used = 0.0

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)


class KernelFiles:
    """Reads files, and keeps those open that may be kept. Any thread may call it."""

    def __init__(self, limit: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit`: how many files may be kept open."""
        self._limit = limit
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._swept = clock()

    def read(self, path: str) -> bytes:
        """The whole content, now. OSError as open(2) and read(2) say."""
        return self._content(path, _to_the_end)

    def attribute(self, path: str) -> bytes:
        """The content, now, by a single read: sysfs has no second page, and a driver might answer EAGAIN for ever."""
        return self._content(path, _once)

    def _content(self, path: str, read: Callable[[int], bytes]) -> bytes:
        held = self._held.get(path)
        if held is not None:
            held.used = self._clock()
            try:
                return read(held.descriptor)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                self._held.pop(path, None)
        held = _Held(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        try:
            content = read(held.descriptor)
        except OSError as error:
            if error.errno not in _GONE:
                self._keep(
                    path, held, 0
                )  # a driver that has no answer has none the next time either
            raise
        self._keep(path, held, len(content))
        return content

    def _keep(self, path: str, held: _Held, size: int) -> None:
        if len(self._held) >= self._limit and not self._sweep():
            return
        status = os.fstat(held.descriptor)
        if not status.st_blocks and status.st_size != size:
            held.used = self._clock()
            self._held[path] = held

    def _sweep(self) -> bool:
        """Whether there is room, after dropping what was not read for long. At most once in a while: it looks at all."""
        now = self._clock()
        if now - self._swept < _UNUSED:
            return False
        self._swept = now
        unused = [path for path, held in self._held.copy().items() if now - held.used >= _UNUSED]
        for path in unused:
            self._held.pop(path, None)
        return bool(unused)


def read_once(path: str) -> bytes:
    """The content of a file of which there is no next time, such as one of a process among many."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _to_the_end(descriptor)
    finally:
        os.close(descriptor)


def _once(descriptor: int) -> bytes:
    return os.pread(descriptor, _PAGE, 0)


def _to_the_end(descriptor: int) -> bytes:
    # One read where it fits: a second one could show another moment. But only a read of nothing says that it did.
    content = os.pread(descriptor, _CHUNK, 0)
    if not (more := content and os.pread(descriptor, _CHUNK, len(content))):
        return content
    parts = [content, more]
    size = len(content) + len(more)
    while part := os.pread(descriptor, _CHUNK, size):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _limit() -> int:
    """A share of the files that the process may have; the kernel keeps a page for each."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(1024, soft // 2) if soft != resource.RLIM_INFINITY else 1024


FILES = KernelFiles(_limit())
"""Those of this process."""
