"""Keeps procfs and sysfs files open: reading such a file again costs a tenth of opening it.

The kernel generates the content of these files on each read from offset 0. A file on disk may be replaced by another one of
the same name, so it is opened each time. They are distinguished by their size: a file on disk reports its real one.
"""

import errno
import os
import resource
import time
from collections.abc import Callable

_CHUNK = 1 << 16
_MOST = 1 << 24
"""Bytes of a file: the largest is interrupts, of machines with hundreds of CPUs."""
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Not blocking: a FIFO in place of a file must not hold up its collector."""
_PAGE = 4096  # size reported by sysfs attributes, and their maximum
# The device, process or module is gone; another one may have taken its place.
_GONE = frozenset({errno.ENODEV, errno.ESRCH, errno.EIO, errno.ENOENT, errno.ENXIO})
_UNUSED = 600.0  # seconds after which an unused file may be closed


class _Held:
    """An open file, closed when its last user releases it."""

    __slots__ = ("descriptor", "used")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.used = 0.0

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)


class KernelFiles:
    """Reads files and keeps kernel files open. Any thread may call it."""

    def __init__(self, limit: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit`: maximum number of open files."""
        self._limit = limit
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._swept = clock()

    def read(self, path: str) -> bytes:
        """Return the current content. Raises OSError as open(2) and read(2) do, and EFBIG for an endless file."""
        return self._content(path, _to_the_end)

    def attribute(self, path: str) -> bytes:
        """Return the current content with a single read: sysfs attributes fit into one, and a driver may return EAGAIN forever."""
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
        held = _Held(os.open(path, _OPEN))
        try:
            content = read(held.descriptor)
        except OSError as error:
            if error.errno not in _GONE:
                self._keep(path, held, 0)  # a driver without a value now may never have one
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
        """Close unused files. Returns whether there is room. Runs at most once in a while, because it checks all files."""
        now = self._clock()
        if now - self._swept < _UNUSED:
            return False
        self._swept = now
        unused = [path for path, held in self._held.copy().items() if now - held.used >= _UNUSED]
        for path in unused:
            self._held.pop(path, None)
        return bool(unused)


def read_once(path: str) -> bytes:
    """Return the content of a file that is not kept open, such as one of many processes."""
    descriptor = os.open(path, _OPEN)
    try:
        return _to_the_end(descriptor)
    finally:
        os.close(descriptor)


def _once(descriptor: int) -> bytes:
    return os.pread(descriptor, _PAGE, 0)


def _to_the_end(descriptor: int) -> bytes:
    # One read if it fits, for a consistent content; only an empty read confirms the end.
    content = os.pread(descriptor, _CHUNK, 0)
    if not (more := content and os.pread(descriptor, _CHUNK, len(content))):
        return content
    parts = [content, more]
    size = len(content) + len(more)
    while part := os.pread(descriptor, _CHUNK, size):
        parts.append(part)
        size += len(part)
        if size > _MOST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return b"".join(parts)


def _limit() -> int:
    """Return a share of the process's descriptor limit; the kernel keeps a page for each open file."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(1024, soft // 2) if soft != resource.RLIM_INFINITY else 1024


FILES = KernelFiles(_limit())
"""The open files of this process."""
