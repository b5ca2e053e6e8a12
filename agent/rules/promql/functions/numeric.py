"""Compensated sums, and floor() for infinities and NaN."""

import math
from collections.abc import Iterable

NAN = math.nan
INF = math.inf


def floor(value: float) -> float:
    """Return the greatest integer <= value; infinities, NaN and -0 are unchanged."""
    return value // 1.0 if math.isfinite(value) else value


def plus(term: float, total: float, lost: float) -> tuple[float, float]:
    """Add a term to a sum; returns the sum and the accumulated rounding error (A. Neumaier, 1974)."""
    new = total + term
    if abs(total) >= abs(term):
        return new, lost + ((total - new) + term)
    return new, lost + ((term - new) + total)


def total(values: Iterable[float]) -> float:
    """Return the compensated sum of the values in the given order."""
    partial_sum = lost = 0.0
    for value in values:
        partial_sum, lost = plus(value, partial_sum, lost)
    return partial_sum if math.isinf(partial_sum) else partial_sum + lost
