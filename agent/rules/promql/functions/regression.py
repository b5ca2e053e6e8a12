"""deriv and predict_linear: least-squares line through the samples of a series."""

import math

from agent.rules.promql.functions.numeric import NAN, plus
from agent.rules.promql.operators.arithmetic import divide
from agent.rules.promql.values import Window


def deriv(window: Window, _start: int, _end: int) -> float | None:
    """Return the slope per second; None for fewer than two samples."""
    if len(window.times) < 2:
        return None
    slope, _ = _line(window, window.times[0])
    return slope


def predict_linear(
    window: Window, _start: int, _end: int, now: float, seconds: float
) -> float | None:
    """Return the predicted value `seconds` after `now` (ms, evaluation time); None for fewer than two samples."""
    if len(window.times) < 2:
        return None
    slope, value = _line(window, int(now))
    return slope * seconds + value


def _line(window: Window, time: int) -> tuple[float, float]:
    """Return the slope per second and the value at a time in ms."""
    first = window.levels[0]
    if all(level == first for level in window.levels):
        return (NAN, NAN) if math.isinf(first) else (0.0, first)
    n = len(window.times)
    x = y = xy = xx = 0.0
    x_lost = y_lost = xy_lost = xx_lost = 0.0
    for at, value in zip(window.times, window.values(), strict=True):
        seconds = (at - time) / 1000
        x, x_lost = plus(seconds, x, x_lost)
        y, y_lost = plus(value, y, y_lost)
        xy, xy_lost = plus(seconds * value, xy, xy_lost)
        xx, xx_lost = plus(seconds * seconds, xx, xx_lost)
    x += x_lost
    y += y_lost
    slope = divide((xy + xy_lost) - x * y / n, (xx + xx_lost) - x * x / n)
    return slope, y / n - slope * x / n
