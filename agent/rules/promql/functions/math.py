"""Functions of one value: rounding, bounds, logarithms. They never raise; undefined results are NaN, as in Go."""

import math

from agent.rules.promql.operators.arithmetic import divide

NAN = math.nan
INF = math.inf
# Go computes log2 from the natural logarithm of a fraction, and log10 from that of the value. C's results differ near
# 1, where log2 loses digits.
_PER_LN2 = 1.4426950408889634
_PER_LN10 = 0.4342944819032518


def floor(value: float) -> float:
    """Return the greatest integer <= value; infinities, NaN and -0 are unchanged."""
    return value // 1.0 if math.isfinite(value) else value


def ceil(value: float) -> float:
    """Return the least integer >= value; infinities, NaN and -0 are unchanged."""
    return -floor(-value)


def rounded(value: float, nearest: float = 1.0) -> float:
    """Return the nearest multiple of `nearest`; halves round up."""
    # Multiplied by the inverse, as Prometheus does: rounding to 0.1 gives 0.3, not 0.30000000000000004.
    inverse = divide(1.0, nearest)
    return divide(floor(value * inverse + 0.5), inverse)


def clamp(value: float, low: float, high: float) -> float | None:
    """Return the value limited to [low, high]; None if low > high."""
    return None if high < low else at_least(at_most(value, high), low)


def at_least(value: float, low: float) -> float:
    """Return the maximum; NaN if either is NaN, except with +Inf."""
    if value == INF or low == INF:
        return INF
    if value != value or low != low:
        return NAN
    if value == low == 0:
        return value if math.copysign(1.0, low) < 0 else low
    return max(value, low)


def at_most(value: float, high: float) -> float:
    """Return the minimum; NaN if either is NaN, except with -Inf."""
    return -at_least(-value, -high)


def exp(value: float) -> float:
    """Return e to the power of value."""
    try:
        return math.exp(value)
    except OverflowError:
        return INF


def ln(value: float) -> float:
    """Return the natural logarithm."""
    if value > 0:
        return math.log(value)
    return -INF if value == 0 else NAN


def log2(value: float) -> float:
    """Return the binary logarithm."""
    fraction, exponent = math.frexp(value)
    if fraction == 0.5:
        return float(exponent - 1)
    return ln(fraction) * _PER_LN2 + exponent


def log10(value: float) -> float:
    """Return the decimal logarithm."""
    return ln(value) * _PER_LN10


def sqrt(value: float) -> float:
    """Return the square root."""
    return math.sqrt(value) if value >= 0 else NAN


def sgn(value: float) -> float:
    """Return 1 or -1, or the value itself if it is 0 or NaN."""
    if value > 0:
        return 1.0
    return -1.0 if value < 0 else value
