"""Options of glibc's malloc: large buffers go back to the system when they are freed.

By default, glibc raises its threshold for separate mappings with each large buffer that is freed, up to 32 MiB. Later buffers
then come from the heap and fragment it: 150 connections that broke off a body left 42 MB behind.
"""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
_MAPPED = 256 << 10
"""Bytes from which a buffer has a mapping of its own: the TLS buffer of each connection is as large."""
_KEPT = 16 << 20
"""Free bytes at the end of the heap that are kept for the next allocations."""


def return_large_buffers() -> None:
    """Fix both thresholds. Does nothing with another C library."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_MMAP_THRESHOLD, _MAPPED)
    mallopt(_TRIM_THRESHOLD, _KEPT)
