"""Writes floats that are not finite, as Prometheus does."""

import math


def not_finite(value: float) -> str:
    """Return `+Inf`, `-Inf` or `NaN`, for a value that is one of these."""
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
