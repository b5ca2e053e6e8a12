"""rate, increase, delta, and irate and idelta, which use the last two samples only.

Samples rarely fall on the bounds of a range, so the result is extrapolated: up to the bound if the nearest sample is close
to it, otherwise by half the average interval between samples
(https://prometheus.io/docs/prometheus/latest/querying/functions).
"""

from collections.abc import Sequence

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
    sampled = (times[-1] - times[0]) / 1000
    return moved * (_stretched(times, sampled, (times[0] - start) / 1000, end) / sampled)


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
    sampled = (times[-1] - times[0]) / 1000
    to_start = (times[0] - start) / 1000
    if risen > 0 and first >= 0:
        # A counter is never below zero: do not extrapolate back beyond the time at which it would have been zero.
        to_start = min(to_start, sampled * (first / risen))
    return risen * (_stretched(times, sampled, to_start, end) / sampled / per)


def _stretched(times: Sequence[int], sampled: float, to_start: float, end: int) -> float:
    """Return the seconds to extrapolate to; the samples cover `sampled` of them."""
    gap = sampled / (len(times) - 1)
    near = gap * _NEAR
    to_end = (end - times[-1]) / 1000
    sampled += to_start if to_start < near else gap / 2
    return sampled + (to_end if to_end < near else gap / 2)


def _last_two(window: Window) -> tuple[float, float]:
    last = window.levels[-1]
    return last, last if window.repeats[-1] > 1 else window.levels[-2]
