"""Returns memory to the kernel that a program needs no more. Where the system cannot do that, nothing happens."""

import asyncio
import ctypes
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_DONTNEED = 4  # MADV_DONTNEED of sys/mman.h
_STATM = Path("/proc/self/statm")
_LOOK = 1.5
"""Seconds between two looks at resident memory."""
_GROWTH = 1.1
"""Growth over two looks after which the heap is trimmed: it takes up to 50 ms of a thread, 5 ms with little to return."""
_FIRST_GAP, _LAST_GAP = 2, 64
"""Looks between a trim and the next one while memory stays grown, doubled each time. After the last one it counts as used."""
_FORGET = 0.98
"""Of the smallest size, at each look: large requests that come and go do not cause a trim each."""
_libc = ctypes.CDLL(None)


def use_one_arena() -> None:
    """Let all threads allocate from one heap. glibc gives each thread its own otherwise, which keeps what it freed."""
    if (mallopt := getattr(_libc, "mallopt", None)) is not None:
        mallopt(_ARENA_MAX, 1)


def return_large_buffers() -> None:
    """Return buffers of 256 KiB, as each TLS connection has, or more to the kernel when they are freed.

    glibc otherwise raises its threshold for separate mappings with each large buffer that is freed, up to 32 MiB. Later
    buffers come from the heap and fragment it: 150 connections that broke off a body left 42 MB behind.
    """
    if (mallopt := getattr(_libc, "mallopt", None)) is not None:
        mallopt(_MMAP_THRESHOLD, 256 << 10)
        mallopt(_TRIM_THRESHOLD, 16 << 20)  # less would cost a system call each time


def settle() -> None:
    """Free garbage and unused heap, and exclude the remaining objects from later garbage collections."""
    gc.collect()
    gc.freeze()
    trim()


def resident() -> int:
    """Return the resident memory of this process in pages; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1])
    except (OSError, IndexError):
        return 0


def trim() -> None:
    """Return unused heap to the kernel."""
    if (malloc_trim := getattr(_libc, "malloc_trim", None)) is not None:
        malloc_trim(0)


async def return_unused(
    measure: Callable[[], int] = resident, release: Callable[[], None] = trim, pause: float = _LOOK
) -> NoReturn:
    """Trim the heap whenever memory has grown and stays so, and again a few times while it does.

    A client of the agents' port can make gRPC buffer a header list of any size before it rejects it. Freed in small pieces,
    the heap keeps it: 240 MB that nothing used. A trim while such a client is connected cannot return what is still in use.
    """
    least: float = measure()
    before, gap, left = least, 0, 0
    while True:
        await asyncio.sleep(pause)
        now, left = measure(), left - 1
        if min(before, now) > least * _GROWTH:
            if left <= 0:
                await asyncio.to_thread(release)
                now, gap = measure(), 2 * gap or _FIRST_GAP
                left = gap
                if gap == _LAST_GAP:
                    least, gap, left = now, 0, 0
        else:
            gap = gap if left > -gap else 0
            least = max(now, least * _FORGET) if now < least else least
        before = now


def drop_code() -> None:
    """Unmap pages of code and constants; those still in use are mapped again on access, from the page cache.

    Loading libraries touches most of their pages, running them a small part. Without this, an idle agent has 7 MiB more, 9
    with rules and 17 with a stream, all beyond their aims (`bench/agent_idle.py`); the evaluator's port for agents, 6 MiB.
    """
    try:
        smaps = Path("/proc/self/smaps").read_text(errors="replace")
    except OSError:
        return
    for start, end in unmodified(smaps):
        _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONTNEED)


def unmodified(smaps: str) -> Iterator[tuple[int, int]]:
    """Yield the addresses of read-only mappings of files without a page that the process has modified, such as a relocated one."""
    start = end = 0
    for line in smaps.splitlines():
        fields = line.split()
        if not fields[0].endswith(":"):
            low, _, high = fields[0].partition("-")
            is_file = len(fields) > 5 and fields[5].startswith("/")
            is_constant = fields[1] in {"r-xp", "r--p"}
            start, end = (int(low, 16), int(high, 16)) if is_file and is_constant else (0, 0)
        elif fields[0] == "Anonymous:" and end and fields[1] == "0":
            yield start, end
