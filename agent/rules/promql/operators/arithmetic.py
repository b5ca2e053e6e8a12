"""Numbers as Go computes with them: what has no result is NaN, what is too large is infinite, and nothing raises.

The cases are those of C99's annex F, which both Go's math package and Python's follow, only that Python raises for some.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping

Arithmetic = Callable[[float, float], float]
Comparison = Callable[[float, float], bool]


def divide(dividend: float, divisor: float) -> float:
    """The quotient; of anything and zero ±Inf, of zero and zero NaN."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def modulo(dividend: float, divisor: float) -> float:
    """The rest of a division towards zero, with the dividend's sign; NaN where the divisor is zero or the dividend ±Inf."""
    try:
        return math.fmod(dividend, divisor)
    except ValueError:
        return math.nan


def power(base: float, exponent: float) -> float:
    """The power; ±Inf where it is too large and at the poles, NaN for a root of a negative number."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and _odd(exponent) else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if _odd(exponent) else math.inf


def _odd(number: float) -> bool:
    return number % 2 == 1


ARITHMETIC: Mapping[str, Arithmetic] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "%": modulo,
    "^": power,
    "atan2": math.atan2,
}
"""The arithmetic operators by their text."""

COMPARISONS: Mapping[str, Comparison] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
"""The comparison operators by their text."""

MIRRORED: Mapping[str, str] = {"==": "==", "!=": "!=", ">": "<", "<": ">", ">=": "<=", "<=": ">="}
"""The comparison that holds of the same two with their places changed."""

_QUICK: Mapping[str, Arithmetic] = {"/": operator.truediv, "%": math.fmod, "^": math.pow}


def elementwise(op: str) -> Callable[[Iterable[float], Iterable[float]], list[float]]:
    """An arithmetic operator over two columns (they are gone through twice where a result is not a number)."""
    careful = ARITHMETIC[op]
    quick = _QUICK.get(op, careful)

    def apply(lefts: Iterable[float], rights: Iterable[float]) -> list[float]:
        try:
            return list(map(quick, lefts, rights))
        except (ArithmeticError, ValueError):
            return list(map(careful, lefts, rights))

    return apply
