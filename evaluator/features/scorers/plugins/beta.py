"""The beta distribution: the probability of a share of at most x.

`tail(x, a, b)` is the regularised incomplete beta function I_x(a, b) for arrays. Its relative error, and that of its
complement, is below 1e-9 for a + b up to 1e8 and no parameter below the smallest double. Of the two, the one on the
shorter side of the mean is computed, by

- the continued fraction of DLMF 8.17.22, which takes a dozen steps far from the mean or for small a and b, and
- Gauss-Legendre quadrature of the density near the mean if both are large, where the fraction would take hundreds.

Both are scaled by x^a (1-x)^b / B(a, b), whose factors overflow and underflow long before their product does. It is
computed around the mean, where the large terms cancel before rounding: see `_scale`.
"""

from dataclasses import dataclass, replace

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import Mask

LARGE = 500.0
"""Above this the density is close enough to a normal one to be integrated with few points."""
NEAR = 3.5
"""Standard deviations from the mean; beyond it the continued fraction takes fewer than 40 steps for any a and b."""
STEPS = 400
"""Upper bound, not reached for a + b up to 1e8: 60 steps if one parameter is below LARGE, 160 if the other is above 1e7."""
PRECISION = 1e-13
SMALLEST = -745.0
"""exp() is 0 below it."""

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_REACH = 80.0
"""The integral ends where the density has fallen by e^40: twice that, as the normal exponent has a half."""
_HALF_LOG_TAU = 0.5 * np.log(2.0 * np.pi)
_SHIFT = 10
"""Stirling's series has an error below 1e-13 from here."""
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


@dataclass(frozen=True, slots=True)
class _Side:
    """I_x(a, b) for x below the mean: arrays of one length. y is 1 - x, kept because x may be closer to 1 than doubles
    resolve.
    """

    x: Floats
    y: Floats
    a: Floats
    b: Floats

    def select(self, where: Mask) -> "_Side":
        return _Side(self.x[where], self.y[where], self.a[where], self.b[where])


def tails(x: float, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return I_x(a, b) and 1 - I_x(a, b), each with full precision; NaN unless a and b are positive and finite."""
    known = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
    lower = np.full(np.shape(a), np.nan)
    upper = np.full(np.shape(a), np.nan)
    if np.isnan(x):
        return lower, upper
    if not 0.0 < x < 1.0:
        lower[known] = 0.0 if x <= 0.0 else 1.0
        upper[known] = 1.0 - lower[known]
        return lower, upper
    lower_a, lower_b = a[known], b[known]
    above = x > (lower_a + 1.0) / (lower_a + lower_b + 2.0)
    small = _tail(
        _Side(
            np.where(above, 1.0 - x, x),
            np.where(above, x, 1.0 - x),
            np.where(above, lower_b, lower_a),
            np.where(above, lower_a, lower_b),
        )
    )
    lower[known] = np.where(above, 1.0 - small, small)
    upper[known] = np.where(above, small, 1.0 - small)
    return lower, upper


def tail(x: float, a: Floats, b: Floats) -> Floats:
    """Return I_x(a, b): the probability that a beta-distributed share is at most x."""
    return tails(x, a, b)[0]


def _tail(side: _Side) -> Floats:
    """Return the probability of the shorter side."""
    total = side.a + side.b
    excess = (
        side.x * side.b - side.y * side.a
    )  # (x - mean) * (a + b), without a difference of near numbers
    exponent = _scale(side, excess)
    near = (np.minimum(side.a, side.b) > LARGE) & (
        np.abs(excess) < NEAR * np.sqrt(side.a * side.b / total)
    )
    far = ~near & (exponent > SMALLEST)
    probability = np.zeros(len(total))
    if near.any():
        part = side.select(near)
        probability[near] = (
            np.exp(exponent[near]) / (part.x * part.y) * _integral(part, excess[near])
        )
    if far.any():
        part = side.select(far)
        probability[far] = np.exp(exponent[far]) / part.a * _fraction(part)
    clipped: Floats = np.clip(probability, 0.0, 1.0)
    return clipped


def _scale(side: _Side, excess: Floats) -> Floats:
    """Return the logarithm of x^a y^b / B(a, b).

    With Stirling's formula for the gamma functions in B and the mean p = a / (a + b), it is a log(x / p) + b log(y /
    (1 - p)) + log(ab / (a + b) / 2 pi) / 2 plus small corrections. The first two terms are near 0 wherever the result
    is not, so that no terms of the size of a cancel.
    """
    a, b = side.a, side.b
    total = a + b
    powers = a * _log_share(excess / a, side.x, a / total) + b * _log_share(
        -excess / b, side.y, b / total
    )
    gammas = _correction(total) - _correction(a) - _correction(b)
    scale: Floats = powers + gammas + 0.5 * (np.log(a) + np.log(b / total)) - _HALF_LOG_TAU
    return scale


def _log_share(change: Floats, x: Floats, mean: Floats) -> Floats:
    """Return log(x / mean), given x / mean - 1."""
    logarithm: Floats = np.log1p(np.maximum(change, -0.9))
    if (far := change < -0.5).any():
        logarithm[far] = np.log(x[far]) - np.log(mean[far])
    return logarithm


def _correction(z: Floats) -> Floats:
    """Return the difference of log(gamma(z)) and Stirling's (z - 1/2) log z - z + log(2 pi) / 2."""
    correction = _series(np.maximum(z, _SHIFT))
    if (small := z < _SHIFT).any():
        low = z[small]
        high = low + _SHIFT
        product = low.copy()
        for step in range(1, _SHIFT):
            product *= low + step
        correction[small] = (
            _series(high)
            + (high - 0.5) * np.log(high)
            - np.log(product)
            - (low - 0.5) * np.log(low)
            - _SHIFT
        )
    return correction


def _series(z: Floats) -> Floats:
    square = 1.0 / (z * z)
    total = np.full(z.shape, _STIRLING[-1])
    for factor in reversed(_STIRLING[:-1]):
        total = total * square + factor
    return total / z


def _integral(side: _Side, excess: Floats) -> Floats:
    """Return the integral of the density below x, as a multiple of the density at x."""
    total = side.a + side.b
    deviation = np.sqrt(side.a * side.b / total) / total
    distance = np.abs(excess) / (total * deviation)
    half = 0.5 * deviation * (np.sqrt(distance * distance + _REACH) - distance)
    down, up = -half / side.x, half / side.y
    integral = np.zeros(len(total))
    for point, weight in zip(_POINTS + 1.0, _WEIGHTS, strict=True):
        integral += weight * np.exp(
            (side.a - 1.0) * np.log1p(point * down) + (side.b - 1.0) * np.log1p(point * up)
        )
    return integral * half


@dataclass(frozen=True, slots=True)
class _Fraction:
    """State of Lentz' method: the value so far, and the last factors of numerator and denominator."""

    side: _Side
    value: Floats
    up: Floats
    down: Floats

    def select(self, where: Mask) -> "_Fraction":
        return _Fraction(
            self.side.select(where), self.value[where], self.up[where], self.down[where]
        )

    def step(self, m: float) -> tuple["_Fraction", Floats]:
        """Return the state after the next two terms, and the last factor."""
        x, a, b = self.side.x, self.side.a, self.side.b
        middle = a + 2.0 * m
        even = m * (b - m) * x / ((middle - 1.0) * middle)
        odd = -(a + m) * (a + b + m) * x / (middle * (middle + 1.0))
        down = 1.0 / (1.0 + even * self.down)
        up = 1.0 + even / self.up
        change = up * down
        down = 1.0 / (1.0 + odd * down)
        up = 1.0 + odd / up
        last = up * down
        return replace(self, value=self.value * change * last, up=up, down=down), last


def _fraction(side: _Side) -> Floats:
    """Return the continued fraction; converged elements are dropped every few steps."""
    first = 1.0 / (1.0 - (side.a + side.b) * side.x / (side.a + 1.0))
    ongoing = _Fraction(side, first, np.ones(len(first)), first)
    fraction = np.empty(len(first))
    positions = np.arange(len(first))
    for m in range(1, STEPS):
        ongoing, change = ongoing.step(float(m))
        if m % 4:
            continue
        busy = np.abs(change - 1.0) > PRECISION
        left = np.count_nonzero(busy)
        if 4 * left < 3 * len(positions):
            fraction[positions] = ongoing.value
            if not left:
                break
            ongoing, positions = ongoing.select(busy), positions[busy]
    fraction[positions] = ongoing.value
    return fraction
