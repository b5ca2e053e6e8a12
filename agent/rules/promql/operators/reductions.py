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
    found = best(values)
    if not math.isnan(found):
        return found  # comparisons with NaN are false, so only the first value can remain NaN
    return best((value for value in values if not math.isnan(value)), default=found)


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean without an intermediate sum that could overflow."""
    found = values[0]
    for count, value in enumerate(values[1:], 2):
        found += value / count - found / count
    if math.isfinite(found):
        return found
    return total([value for value in values if not math.isfinite(value)])


def variance(values: Sequence[float]) -> float:
    """Return the population variance by Welford's method; 0 for a single value, also if it is infinite or NaN."""
    middle = values[0]
    found = 0.0
    for count, value in enumerate(values[1:], 2):
        delta = value - middle
        middle += delta / count
        found += delta * (value - middle)
    return found / len(values)


def deviation(values: Sequence[float]) -> float:
    """Return the population standard deviation."""
    found = variance(values)
    return math.sqrt(found) if found >= 0 else math.nan  # negative after overflow


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
