"""Sums that keep what rounding would lose, and rounding to whole numbers that takes infinities and NaN."""

import math
from collections.abc import Iterable

NAN = math.nan
INF = math.inf


def floor(value: float) -> float:
    """The greatest whole number not above; infinities, NaN and the sign of zero stay."""
    return value // 1.0 if math.isfinite(value) else value


def plus(term: float, total: float, lost: float) -> tuple[float, float]:
    """A sum with one more term, and what rounding has taken from it so far (A. Neumaier, 1974)."""
    new = total + term
    if abs(total) >= abs(term):
        return new, lost + ((total - new) + term)
    return new, lost + ((term - new) + total)


def total(values: Iterable[float]) -> float:
    """A sum in the order given, less exact only than one of unlimited precision."""
    found = lost = 0.0
    for value in values:
        found, lost = plus(value, found, lost)
    return found if math.isinf(found) else found + lost
