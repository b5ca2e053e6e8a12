"""Formats floats as Go's strconv does."""

import math


def positional(number: float) -> str:
    """Return the shortest digits that round-trip, without an exponent; NaN, +Inf, -Inf."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    mantissa, _, exponent = repr(float(number)).partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    sign = "-" if number < 0 else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    # Large numbers have an exponent only if all their digits precede the point.
    return sign + digits.ljust(point, "0")
