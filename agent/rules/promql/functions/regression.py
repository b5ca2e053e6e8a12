"""The straight line through a series' samples (least squares): its slope, and where it leads."""

import math

from agent.rules.promql.functions.numeric import NAN, plus
from agent.rules.promql.operators.arithmetic import divide
from agent.rules.promql.values import Window


def deriv(window: Window, _start: int, _end: int) -> float | None:
    """The slope per second; None of fewer than two samples."""
    if len(window.times) < 2:
        return None
    slope, _ = _line(window, window.times[0])
    return slope


def predict_linear(
    window: Window, _start: int, _end: int, now: float, seconds: float
) -> float | None:
    """What is to be expected `seconds` after `now` (ms, the time of evaluation); None of fewer than two samples."""
    if len(window.times) < 2:
        return None
    slope, value = _line(window, int(now))
    return slope * seconds + value


def _line(window: Window, time: int) -> tuple[float, float]:
    """Slope per second, and value at a time in milliseconds."""
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
