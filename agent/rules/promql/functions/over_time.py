"""Functions of the samples in a range: extremes, quantiles, last sample, counts of samples and changes; sum, mean and spread.

Repeated values are summed as one product where that gives the same digits. If terms cancel, if infinities or NaN occur, or
if the spread is tiny compared with the mean, samples are added one by one in Prometheus' order with compensation, so that
the last digits agree.
"""

import math
from operator import mul

from agent.rules.promql.functions.math import NAN
from agent.rules.promql.operators.reductions import quantile
from agent.rules.promql.sums import mean, plus, total
from agent.rules.promql.values import Window

_CANCELLED = 1e4  # sum of magnitudes relative to the sum
_TINY = 1e-9  # variance relative to the squared mean


def lowest(window: Window, _start: int, _end: int) -> float:
    """Return the minimum; NaN only if all samples are NaN."""
    minimum = min(window.levels)
    if minimum == minimum:
        return minimum
    return min((level for level in window.levels if level == level), default=minimum)


def highest(window: Window, _start: int, _end: int) -> float:
    """Return the maximum; NaN only if all samples are NaN."""
    maximum = max(window.levels)
    if maximum == maximum:
        return maximum
    return max((level for level in window.levels if level == level), default=maximum)


def count(window: Window, _start: int, _end: int) -> float:
    """Return the number of samples."""
    return float(len(window.times))


def last(window: Window, _start: int, _end: int) -> float:
    """Return the value of the last sample."""
    return window.levels[-1]


def present(_window: Window, _start: int, _end: int) -> float:
    """Return 1 for a series with any sample."""
    return 1.0


def quantile_over_time(window: Window, _start: int, _end: int, q: float) -> float:
    """Return the `q` quantile of the samples."""
    return quantile(q, window.levels, window.repeats)


def changes(window: Window, _start: int, _end: int) -> float:
    """Return how many samples differ from the sample before; NaN after NaN is no change."""
    levels = window.levels
    count = 0
    before = levels[0]
    for level in levels:
        if level != before and (level == level or before == before):
            count += 1
        before = level
    return float(count)


def resets(window: Window, _start: int, _end: int) -> float:
    """Return how many samples are less than the sample before, as a counter's are after its process restarted."""
    levels = window.levels
    count = 0
    before = levels[0]
    for level in levels:
        if level < before:
            count += 1
        before = level
    return float(count)


def summed(window: Window, _start: int, _end: int) -> float:
    """Return the sum of all samples."""
    known = _plain_sum(window)
    return total(window.values()) if known is None else known


def average(window: Window, _start: int, _end: int) -> float:
    """Return the mean of all samples."""
    if len(window.levels) == 1:
        return window.levels[0] + 0.0  # a sum starts at 0, so it is never -0
    known = _plain_sum(window)
    return mean(window.values()) if known is None else known / len(window.times)


def variance(window: Window, _start: int, _end: int) -> float:
    """Return the population variance of all samples."""
    levels = window.levels
    if len(levels) == 1:
        return 0.0 if math.isfinite(levels[0]) else NAN
    known = _plain_sum(window)
    if known is not None:
        middle = known / len(window.times)
        squares = [(level - middle) * (level - middle) for level in levels]
        mean_square: float = sum(map(mul, squares, window.repeats)) / len(window.times)
        if middle * middle * _TINY < mean_square < math.inf:
            return mean_square
    return _spread(window.values())


def deviation(window: Window, start: int, end: int) -> float:
    """Return the population standard deviation of all samples."""
    stdvar = variance(window, start, end)
    return math.sqrt(stdvar) if stdvar >= 0 else NAN


def _plain_sum(window: Window) -> float | None:
    """Return the sum over repeated values; None if order or rounding could change it."""
    levels, repeats = window.levels, window.repeats
    try:
        exact = math.fsum(map(mul, levels, repeats))
        if not math.isfinite(exact):
            return None
        if min(levels) >= 0 or max(levels) <= 0:
            return exact
        terms = math.fsum(map(mul, map(abs, levels), repeats))
    except (OverflowError, ValueError):  # overflow in between, or infinities of both signs
        return None
    return exact if terms < abs(exact) * _CANCELLED else None


def _spread(values: list[float]) -> float:
    middle = middle_lost = squares = squares_lost = 0.0
    for count, value in enumerate(values, 1):
        off = value - (middle + middle_lost)
        middle, middle_lost = plus(off / count, middle, middle_lost)
        squares, squares_lost = plus(off * (value - (middle + middle_lost)), squares, squares_lost)
    return (squares + squares_lost) / len(values)
