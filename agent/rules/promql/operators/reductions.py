"""Aggregations of a group's values to one number. Groups are never empty, except those of `quantile`.

NaN, infinities and overflow behave as in Prometheus.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import inf, nan

from agent.rules.promql.sums import mean, total

Reduction = Callable[[Sequence[float]], float]


def least(values: Sequence[float]) -> float:
    """Return the minimum, ignoring NaN unless all are NaN."""
    return _extreme(min, values)


def greatest(values: Sequence[float]) -> float:
    """Return the maximum, ignoring NaN unless all are NaN."""
    return _extreme(max, values)


def _extreme(best: Callable[..., float], values: Sequence[float]) -> float:
    extreme = best(values)
    if not math.isnan(extreme):
        return extreme  # comparisons with NaN are false, so only the first value can remain NaN
    return best((value for value in values if not math.isnan(value)), default=extreme)


def variance(values: Sequence[float]) -> float:
    """Return the population variance by Welford's method; NaN with a value that is infinite or NaN."""
    middle = values[0]
    squares = 0.0 if math.isfinite(middle) else nan
    for count, value in enumerate(values[1:], 2):
        delta = value - middle
        middle += delta / count
        squares += delta * (value - middle)
    return squares / len(values)


def deviation(values: Sequence[float]) -> float:
    """Return the population standard deviation."""
    stdvar = variance(values)
    return math.sqrt(stdvar) if stdvar >= 0 else math.nan  # negative after overflow


def count(values: Sequence[float]) -> float:
    """Return the number of values."""
    return float(len(values))


def one(_: Sequence[float]) -> float:
    """Return 1."""
    return 1.0


REDUCTIONS: Mapping[str, Reduction] = {
    "sum": total,
    "min": least,
    "max": greatest,
    "avg": mean,
    "count": count,
    "stddev": deviation,
    "stdvar": variance,
    "group": one,
}
"""Aggregations without a parameter, by name."""


def largest(count: int, numbers: Sequence[float]) -> list[int]:
    """Return the indices of the `count` (>= 1) largest numbers, largest first and NaN last; equal ones as Prometheus does.

    Ties depend on the layout of Prometheus' heap, so this heap is the same: binary, the smallest on top, NaN below all.
    Python's heapq moves other entries when it replaces the top.
    """
    heap: list[int] = []
    for index, number in enumerate(numbers):
        if len(heap) < count:
            _put(heap, numbers, index)
            continue
        top = numbers[heap[0]]
        if top < number or (top != top and number == number):
            heap[0] = index
            _sink(heap, numbers)
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


def _sink(heap: list[int], numbers: Sequence[float]) -> None:
    parent = 0
    while (child := 2 * parent + 1) < len(heap):
        if child + 1 < len(heap) and _below(numbers, heap[child + 1], heap[child]):
            child += 1
        if not _below(numbers, heap[child], heap[parent]):
            break
        heap[child], heap[parent] = heap[parent], heap[child]
        parent = child


def quantile(q: float, levels: Sequence[float], repeats: Sequence[int] | None = None) -> float:
    """Return the `q` quantile of sorted values, NaN first, with linear interpolation.

    `repeats`: how often each value occurs (default: once). Returns NaN for no values or a NaN `q`, ±Inf for `q` outside [0, 1].
    """
    if not levels or q != q:
        return nan
    if q < 0:
        return -inf
    if q > 1:
        return inf
    if repeats is None or max(repeats) == 1:
        ordered = _in_order(levels)
        rank = q * (len(ordered) - 1)
        below = int(rank)
        weight = rank - below
        return ordered[below] * (1 - weight) + ordered[min(below + 1, len(ordered) - 1)] * weight
    return _of_runs(q, levels, repeats)


def _of_runs(q: float, levels: Sequence[float], repeats: Sequence[int]) -> float:
    runs = [run for run in zip(levels, repeats, strict=True) if run[0] == run[0]]
    runs.sort()
    unknown = sum(repeats) - sum(repeat for _, repeat in runs)
    if unknown:
        runs.insert(0, (nan, unknown))
    behind = list(accumulate(repeat for _, repeat in runs))
    rank = q * (behind[-1] - 1)
    below = int(rank)
    weight = rank - below
    lower, _ = runs[bisect_right(behind, below)]
    upper, _ = runs[bisect_right(behind, min(below + 1, behind[-1] - 1))]
    return lower * (1 - weight) + upper * weight


def _in_order(levels: Sequence[float]) -> list[float]:
    known = [level for level in levels if level == level]
    known.sort()
    return [nan] * (len(levels) - len(known)) + known
