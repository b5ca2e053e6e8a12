"""Compensated sums and means (A. Neumaier, 1974): rounding errors of each step are kept and added at the end."""

import math
from collections.abc import Iterable, Sequence


def plus(term: float, total: float, lost: float) -> tuple[float, float]:
    """Add a term to a sum; returns the sum and the accumulated rounding error."""
    new = total + term
    if math.isinf(new):
        return new, 0.0
    if abs(total) >= abs(term):
        return new, lost + ((total - new) + term)
    return new, lost + ((term - new) + total)


def total(values: Sequence[float]) -> float:
    """Return the compensated sum of the values in the given order."""
    if not values or min(values) >= 0 or max(values) <= 0:
        try:
            return math.fsum(values) + 0.0  # exact, and faster: nothing cancels out
        except (OverflowError, ValueError):  # overflow in between, or infinities of both signs
            pass
    partial_sum = lost = 0.0
    for value in values:
        partial_sum, lost = plus(value, partial_sum, lost)
    return partial_sum + lost


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value: of their sum or, from where that would overflow, incrementally."""
    partial_sum = lost = 0.0
    rest = enumerate(values, 1)
    for count, value in rest:
        new, new_lost = plus(value, partial_sum, lost)
        if count > 1 and math.isinf(new):
            average, lost = partial_sum / (count - 1), lost / (count - 1)
            return _continued(((count, value), *rest), average, lost)
        partial_sum, lost = new, new_lost
    return partial_sum / len(values) + lost / len(values)


def _continued(rest: Iterable[tuple[int, float]], average: float, lost: float) -> float:
    """Return the mean, continued with numbered values."""
    for count, value in rest:
        share = (count - 1) / count
        average, lost = plus(value / count, share * average, share * lost)
    return average + lost
