"""The memory of request bodies: allocated when written to, and reused between large bodies that follow each other."""

import asyncio
import contextlib
import mmap

LARGE = 1 << 20
"""Bytes from which a body gets huge pages, and its memory may be reused."""
_KEPT = 5.0
"""Seconds. Between filter and prioritize with whole nodes, kube-scheduler decodes and encodes them: a second for 5,000."""
_FITTING = 2
"""Kept memory is used for bodies of at least this fraction of it."""


class BodyBuffers:
    """Allocates the memory of bodies, and keeps that of the last large one for the next one.

    The kernel clears new pages: with whole nodes, a fifth of the CPU time of a prioritize request. `most`: memory of more
    bytes is not kept. `kept`: for how long (seconds).
    """

    def __init__(self, most: int, *, kept: float = _KEPT) -> None:
        self._most = most
        self._seconds = kept
        self._kept: mmap.mmap | None = None
        self._timer: asyncio.TimerHandle | None = None

    def allocate(self, size: int) -> memoryview:
        """Return memory of this size; its content is undefined."""
        if size < LARGE:
            return memoryview(_pages(size))
        memory = self._kept
        if memory is None or not size <= len(memory) <= _FITTING * size or _in_use(memory):
            memory = _pages(size)
        self._forget()
        if size <= self._most:
            self._kept = memory
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._forget)
        return memoryview(memory)[:size]

    def _forget(self) -> None:
        """Let go of the memory: it is freed with the last reference to it."""
        if self._timer is not None:
            self._timer.cancel()
        self._kept = self._timer = None


def use_large_pages(buffer: memoryview) -> None:
    """Use huge pages: faulting in small pages would cost as much as receiving the body."""
    memory = buffer.obj
    assert isinstance(memory, mmap.mmap)
    with contextlib.suppress(OSError):  # not supported by the kernel
        memory.madvise(mmap.MADV_HUGEPAGE)


def _pages(size: int) -> mmap.mmap:
    """Return memory that is allocated when written to, and returned to the system as a whole."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _in_use(memory: mmap.mmap) -> bool:
    """Return whether a view of this memory exists: such memory cannot be resized, not even to its size."""
    try:
        memory.resize(len(memory))
    except (BufferError, SystemError):  # SystemError: the platform cannot resize
        return True
    return False
