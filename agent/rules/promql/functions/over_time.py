"""`*_over_time` functions without arithmetic: extremes, quantiles, last sample, count."""

from agent.rules.promql.operators.quantiles import quantile
from agent.rules.promql.values import Window


def lowest(window: Window, _start: int, _end: int) -> float:
    """Return the minimum; NaN only if all samples are NaN."""
    found = min(window.levels)
    if found == found:
        return found
    return min((level for level in window.levels if level == level), default=found)


def highest(window: Window, _start: int, _end: int) -> float:
    """Return the maximum; NaN only if all samples are NaN."""
    found = max(window.levels)
    if found == found:
        return found
    return max((level for level in window.levels if level == level), default=found)


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
