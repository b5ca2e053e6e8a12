"""rate, increase, delta, and irate and idelta, which use the last two samples only; deriv and predict_linear, by least squares.

Samples rarely fall on the bounds of a range, so the result of the first three is extrapolated: up to the bound if the nearest sample is close
to it, otherwise by half the average interval between samples; of a counter at most back to where it would have been zero
(https://prometheus.io/docs/prometheus/latest/querying/functions).
"""

import math
from collections.abc import Sequence

from agent.rules.promql.functions.math import NAN
from agent.rules.promql.operators.arithmetic import divide
from agent.rules.promql.sums import plus
from agent.rules.promql.values import Window

_NEAR = 1.1  # average intervals between samples: a bound no further away counts as close


def rate(window: Window, start: int, end: int) -> float | None:
    """Return a counter's increase per second over a range (ms); None for fewer than two samples."""
    return _risen(window, start, end, (end - start) / 1000)


def increase(window: Window, start: int, end: int) -> float | None:
    """Return a counter's increase over the range; None for fewer than two samples."""
    return _risen(window, start, end, 1.0)


def delta(window: Window, start: int, end: int) -> float | None:
    """Return a gauge's difference over the range; None for fewer than two samples."""
    times = window.times
    if len(times) < 2:
        return None
    moved = window.levels[-1] - window.levels[0]
    return moved * _stretching(times, start, end)


def irate(window: Window, _start: int, _end: int) -> float | None:
    """Return a counter's increase per second between its last two samples; None for fewer than two samples."""
    times = window.times
    if len(times) < 2:
        return None
    last, before = _last_two(window)
    risen = last if last < before else last - before
    return risen / ((times[-1] - times[-2]) / 1000)


def idelta(window: Window, _start: int, _end: int) -> float | None:
    """Return a gauge's difference between its last two samples; None for fewer than two samples."""
    if len(window.times) < 2:
        return None
    last, before = _last_two(window)
    return last - before


def _risen(window: Window, start: int, end: int, per: float) -> float | None:
    times, levels = window.times, window.levels
    if len(times) < 2:
        return None
    first = before = levels[0]
    risen = levels[-1] - first
    for level in levels:
        if level < before:  # a reset to zero: add the value reached before it
            risen += before
        before = level
    # In units of the sampled time. A counter is never below zero.
    zero = first / risen if risen > 0 and first >= 0 else math.inf
    return risen * (_stretching(times, start, end, zero) / per)


def _stretching(times: Sequence[int], start: int, end: int, zero: float = math.inf) -> float:
    """Return the factor from what was sampled to the range. `zero`: the most by which to extend the start, as a share of what was sampled."""
    sampled = (times[-1] - times[0]) / 1000
    gap = sampled / (len(times) - 1)
    near = gap * _NEAR
    to_start, to_end = (times[0] - start) / 1000, (end - times[-1]) / 1000
    to_start = min(to_start if to_start < near else gap / 2, sampled * zero)
    return (sampled + to_start + (to_end if to_end < near else gap / 2)) / sampled


def _last_two(window: Window) -> tuple[float, float]:
    last = window.levels[-1]
    return last, last if window.repeats[-1] > 1 else window.levels[-2]


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
