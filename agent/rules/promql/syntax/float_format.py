"""Numbers as text, the way Go's strconv prints them."""

import math


def positional(number: float) -> str:
    """The fewest digits that mean this number, never with an exponent; NaN, +Inf, -Inf."""
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
    # Large numbers have an exponent only where all their digits stand before the point.
    return sign + digits.ljust(point, "0")
