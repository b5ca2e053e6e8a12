"""Functions of the samples in a range without arithmetic: extremes, quantiles, last sample, counts of samples and changes."""

from agent.rules.promql.operators.quantiles import quantile
from agent.rules.promql.values import Window


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
