"""What a series was over a range, without arithmetic: its extremes, its quantiles, its last sample, how many there are."""

from agent.rules.promql.operators.quantiles import quantile
from agent.rules.promql.values import Window


def lowest(window: Window, _start: int, _end: int) -> float:
    """The least value; NaN only where there is nothing else."""
    found = min(window.levels)
    if found == found:
        return found
    return min((level for level in window.levels if level == level), default=found)


def highest(window: Window, _start: int, _end: int) -> float:
    """The greatest value; NaN only where there is nothing else."""
    found = max(window.levels)
    if found == found:
        return found
    return max((level for level in window.levels if level == level), default=found)


def count(window: Window, _start: int, _end: int) -> float:
    """How many samples there are."""
    return float(len(window.times))


def last(window: Window, _start: int, _end: int) -> float:
    """The value of the last sample."""
    return window.levels[-1]


def present(_window: Window, _start: int, _end: int) -> float:
    """One, of any series that has a sample."""
    return 1.0


def quantile_over_time(window: Window, _start: int, _end: int, q: float) -> float:
    """The value that a share `q` of the samples does not exceed."""
    return quantile(q, window.levels, window.repeats)
