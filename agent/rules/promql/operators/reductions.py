"""Aggregations of a group's values to one number. Groups are never empty.

NaN, infinities and overflow behave as in Prometheus. Values are added in sequence as Prometheus does: another order would
change the last digits, and the builtin sum() compensates errors from Python 3.12 on.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

Reduction = Callable[[Sequence[float]], float]


def total(values: Sequence[float]) -> float:
    """Return the sum."""
    return reduce(operator.add, values)


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


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean without an intermediate sum that could overflow."""
    average = values[0]
    for count, value in enumerate(values[1:], 2):
        average += value / count - average / count
    if math.isfinite(average):
        return average
    return total([value for value in values if not math.isfinite(value)])


def variance(values: Sequence[float]) -> float:
    """Return the population variance by Welford's method; 0 for a single value, also if it is infinite or NaN."""
    middle = values[0]
    squares = 0.0
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
