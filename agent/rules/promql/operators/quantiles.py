"""Quantiles of values with repetitions."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf, nan


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
