"""The incomplete beta function as kube-safe-scheduler works it out, for who wants its numbers: also where they are wrong.

It is the textbook's: x^a (1-x)^b, then divided by B(a, b). Where the power underflows, which is so from a few thousands of
a + b on, it answers 0 or 1 by the side of the mean that x is on. `beta` is what to use.
"""

import math

import numpy as np

from evaluator.nodes import Floats

_STEPS = 100
_PRECISION = 3e-7


def tail(x: float, a: Floats, b: Floats) -> Floats:
    """I_x(a, b) for x from 0 to 1; NaN where the textbook's arithmetic makes it so."""
    with np.errstate(all="ignore"):
        below = x < (a + 1.0) / (a + b + 2.0)
        power = np.zeros(a.shape)
        if 0.0 < x < 1.0:
            power = np.exp(a * math.log(x) + b * math.log(1.0 - x))
            complete = np.exp(_log_gamma(a) + _log_gamma(b) - _log_gamma(a + b))
            power = np.where(power != 0.0, power / complete, power)
        first, second = np.where(below, a, b), np.where(below, b, a)
        part = power * _fraction(np.where(below, x, 1.0 - x), first, second) / first
        return np.where(below, part, 1.0 - part)


def _fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    """The continued fraction by its convergents, each scaled so that the denominator is 1; at most a hundred."""
    total = a + b
    numerator, last_numerator, last_denominator = np.ones((3, *a.shape))
    denominator = 1.0 - total * x / (a + 1.0)
    found = np.ones(a.shape)
    busy = np.ones(a.shape, dtype=bool)
    for m in range(1, _STEPS + 1):
        twice = 2.0 * m
        even = m * (b - m) * x / ((a - 1.0 + twice) * (a + twice))
        odd = -(a + m) * (total + m) * x / ((a + twice) * (a + 1.0 + twice))
        between = numerator + even * last_numerator
        beneath = denominator + even * last_denominator
        scale = beneath + odd * denominator
        before, numerator = numerator, (between + odd * numerator) / scale
        last_numerator, last_denominator = between / scale, beneath / scale
        denominator = np.ones(a.shape)
        found = np.where(busy, numerator, found)
        busy &= ~(np.abs(numerator - before) < _PRECISION * np.abs(numerator))
        if not busy.any():
            break
    return found


def _log_gamma(z: Floats) -> Floats:
    return np.array([_log_gamma_of(one) for one in z.ravel().tolist()]).reshape(z.shape)


def _log_gamma_of(z: float) -> float:
    """Infinite where it is too large, and at 0."""
    try:
        return math.lgamma(z)
    except (OverflowError, ValueError):
        return math.inf
