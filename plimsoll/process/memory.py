"""Returns memory to the kernel that a program needs no more. Where the system cannot do that, nothing happens."""

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_DONTNEED = 4  # MADV_DONTNEED of sys/mman.h
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
    if (trim := getattr(_libc, "malloc_trim", None)) is not None:
        trim(0)


def drop_code() -> None:
    """Unmap pages of code and constants; those still in use are mapped again on access, from the page cache.

    Loading libraries touches most of their pages, running them a small part.
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
