"""Floating-point arithmetic that never raises, and sums that keep what rounding would lose.

Python raises where Go answers with an infinity or NaN; Prometheus' results are those of Go.
"""

import math
from collections.abc import Iterable

NAN = math.nan
INF = math.inf


def divided(dividend: float, divisor: float) -> float:
    """A quotient as IEEE 754 has it: infinite or NaN where the divisor is zero."""
    try:
        return dividend / divisor
    except ZeroDivisionError:
        if dividend == 0 or dividend != dividend:
            return NAN
        return math.copysign(INF, dividend) * math.copysign(1.0, divisor)


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
