"""Selects the largest numbers; among equal numbers, the same ones as Prometheus.

Ties depend on the layout of Prometheus' heap, so this heap is the same: binary, the smallest on top, NaN below all. Python's
heapq moves other entries when it removes the top.
"""

from collections.abc import Sequence


def largest(count: int, numbers: Sequence[float]) -> list[int]:
    """Return the indices of the `count` (>= 1) largest numbers, largest first and NaN last."""
    heap: list[int] = []
    for index, number in enumerate(numbers):
        if len(heap) >= count:
            top = numbers[heap[0]]
            if not (top < number or top != top):
                continue
            _take_top(heap, numbers)
        _put(heap, numbers, index)
    known = [index for index in heap if numbers[index] == numbers[index]]
    known.sort(key=lambda index: (-numbers[index], index))
    return known + sorted(set(heap).difference(known))


def _below(numbers: Sequence[float], a: int, b: int) -> bool:
    return numbers[a] != numbers[a] or numbers[a] < numbers[b]


def _put(heap: list[int], numbers: Sequence[float], index: int) -> None:
    heap.append(index)
    child = len(heap) - 1
    while child > 0:
        parent = (child - 1) // 2
        if not _below(numbers, heap[child], heap[parent]):
            break
        heap[child], heap[parent] = heap[parent], heap[child]
        child = parent


def _take_top(heap: list[int], numbers: Sequence[float]) -> None:
    heap[0] = heap[-1]
    del heap[-1]
    parent = 0
    while (child := 2 * parent + 1) < len(heap):
        if child + 1 < len(heap) and _below(numbers, heap[child + 1], heap[child]):
            child += 1
        if not _below(numbers, heap[child], heap[parent]):
            break
        heap[child], heap[parent] = heap[parent], heap[child]
        parent = child
