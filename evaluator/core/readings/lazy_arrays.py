"""Arrays whose memory is allocated page by page on first write.

numpy requests huge pages, so the kernel clears two megabytes on the first write to each. A report writes one column of a
table of thousands of metrics and nodes: the first report would touch all of it, a second or more.
"""

import math
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of zeros backed by lazily allocated pages."""
    count = math.prod(shape)
    size = max(1, count * np.dtype(dtype).itemsize)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype, count).reshape(shape)
