"""Functions of one value: rounding, bounds, logarithms. None raises; what has no answer is NaN, as in Go."""

import math

from agent.rules.promql.functions.numeric import INF, NAN, floor
from agent.rules.promql.operators.arithmetic import divide

# Go has log2 from the natural logarithm of a fraction, and log10 from that of the value. Near one, where log2 loses digits, those
# of C would be other ones.
_PER_LN2 = 1.4426950408889634
_PER_LN10 = 0.4342944819032518


def ceil(value: float) -> float:
    """The least whole number not below; infinities, NaN and the sign of zero stay."""
    return -floor(-value)


def rounded(value: float, nearest: float = 1.0) -> float:
    """The nearest multiple; halves go up."""
    # Times the inverse rather than divided: that is how a rounding to 0.1 gives 0.3 and not 0.30000000000000004.
    inverse = divide(1.0, nearest)
    return divide(floor(value * inverse + 0.5), inverse)


def clamp(value: float, low: float, high: float) -> float | None:
    """The value, but not below `low` nor above `high`; None where no value can be."""
    return None if high < low else at_least(at_most(value, high), low)


def at_least(value: float, low: float) -> float:
    """The greater one; NaN where one is, but for infinity, which is greater than all."""
    if value == INF or low == INF:
        return INF
    if value != value or low != low:
        return NAN
    if value == low == 0:
        return value if math.copysign(1.0, low) < 0 else low
    return max(value, low)


def at_most(value: float, high: float) -> float:
    """The lesser one; NaN where one is, but for minus infinity, which is less than all."""
    return -at_least(-value, -high)


def exp(value: float) -> float:
    """e to this power."""
    try:
        return math.exp(value)
    except OverflowError:
        return INF


def ln(value: float) -> float:
    """The natural logarithm."""
    if value > 0:
        return math.log(value)
    return -INF if value == 0 else NAN


def log2(value: float) -> float:
    """The binary logarithm."""
    fraction, exponent = math.frexp(value)
    if fraction == 0.5:
        return float(exponent - 1)
    return ln(fraction) * _PER_LN2 + exponent


def log10(value: float) -> float:
    """The decimal logarithm."""
    return ln(value) * _PER_LN10


def sqrt(value: float) -> float:
    """The square root."""
    return math.sqrt(value) if value >= 0 else NAN


def sgn(value: float) -> float:
    """1, -1, or the value itself where it is zero or NaN."""
    if value > 0:
        return 1.0
    return -1.0 if value < 0 else value
