"""Arrays whose memory is taken page by page as it is written to.

numpy asks for huge pages: the first write to each then has the kernel find and clear two megabytes. For tables of thousands of
metrics and nodes, in which a report writes a column, that is all of it at the first report: a second or more.
"""

import math
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros."""
    count = math.prod(shape)
    size = max(1, count * np.dtype(dtype).itemsize)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype, count).reshape(shape)
