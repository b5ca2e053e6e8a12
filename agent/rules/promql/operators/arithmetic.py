"""Arithmetic as in Go: undefined results are NaN, overflow is infinite, nothing raises.

The cases are those of C99 annex F. Go's math package and Python follow it, but Python raises in some of them.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping

Arithmetic = Callable[[float, float], float]
Comparison = Callable[[float, float], bool]


def divide(dividend: float, divisor: float) -> float:
    """Return the quotient; ±Inf for x/0, NaN for 0/0."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def modulo(dividend: float, divisor: float) -> float:
    """Return the remainder truncated towards zero, with the dividend's sign; NaN if the divisor is 0 or the dividend ±Inf."""
    try:
        return math.fmod(dividend, divisor)
    except ValueError:
        return math.nan


def power(base: float, exponent: float) -> float:
    """Return the power; ±Inf on overflow and at poles, NaN for a root of a negative number."""
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
"""Arithmetic operators by their text."""

COMPARISONS: Mapping[str, Comparison] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
"""Comparison operators by their text."""

MIRRORED: Mapping[str, str] = {"==": "==", "!=": "!=", ">": "<", "<": ">", ">=": "<=", "<=": ">="}
"""The equivalent comparison with swapped operands."""

_QUICK: Mapping[str, Arithmetic] = {"/": operator.truediv, "%": math.fmod, "^": math.pow}


def elementwise(op: str) -> Callable[[Iterable[float], Iterable[float]], list[float]]:
    """Return an arithmetic operator over two columns, which it iterates twice if a result is not a number."""
    careful = ARITHMETIC[op]
    quick = _QUICK.get(op, careful)

    def apply(lefts: Iterable[float], rights: Iterable[float]) -> list[float]:
        try:
            return list(map(quick, lefts, rights))
        except (ArithmeticError, ValueError):
            return list(map(careful, lefts, rights))

    return apply
