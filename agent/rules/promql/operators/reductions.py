"""One number of the values of a group, as each aggregation has it. Groups are never empty.

NaN and infinite values, and values whose sum would be infinite, end as they do in Prometheus. Values are taken one after
another as it does, too: another order of the same operations would show in the last digits, and builtin sum() compensates
errors from Python 3.12 on.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

Reduction = Callable[[Sequence[float]], float]


def total(values: Sequence[float]) -> float:
    """The sum."""
    return reduce(operator.add, values)


def least(values: Sequence[float]) -> float:
    """The minimum of those that are not NaN, if any."""
    return _extreme(min, values)


def greatest(values: Sequence[float]) -> float:
    """The maximum of those that are not NaN, if any."""
    return _extreme(max, values)


def _extreme(best: Callable[..., float], values: Sequence[float]) -> float:
    found = best(values)
    if not math.isnan(found):
        return found  # NaN is neither less nor greater, so only the first value could win as one
    return best((value for value in values if not math.isnan(value)), default=found)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, without ever forming a sum that could be too large."""
    found = values[0]
    for count, value in enumerate(values[1:], 2):
        found += value / count - found / count
    if math.isfinite(found):
        return found
    return total([value for value in values if not math.isfinite(value)])


def variance(values: Sequence[float]) -> float:
    """The population variance, by Welford's method; of a single value 0, be it infinite or NaN."""
    middle = values[0]
    found = 0.0
    for count, value in enumerate(values[1:], 2):
        delta = value - middle
        middle += delta / count
        found += delta * (value - middle)
    return found / len(values)


def deviation(values: Sequence[float]) -> float:
    """The population's standard deviation."""
    found = variance(values)
    return math.sqrt(found) if found >= 0 else math.nan  # overflow makes it negative


def count(values: Sequence[float]) -> float:
    """How many there are."""
    return float(len(values))


def one(_: Sequence[float]) -> float:
    """That there are any."""
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
"""The aggregations that take nothing but the values, by their names."""
