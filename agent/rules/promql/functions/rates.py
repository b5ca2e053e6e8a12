"""How fast and how far a series moved over a range: rate, increase, delta, and the two that look at the last step only.

Samples seldom lie at the ends of a range. What they moved by is stretched to the whole range where they come near enough to
its ends to have gone on there, else by half of a usual gap between them (prometheus.io/docs/prometheus/latest/querying/functions).
"""

from collections.abc import Sequence

from agent.rules.promql.values import Window

_NEAR = 1.1  # gaps between samples: nothing is missing where the next one would be no further away than that


def rate(window: Window, start: int, end: int) -> float | None:
    """What a counter rose by per second, over a range in milliseconds; None of fewer than two samples."""
    return _risen(window, start, end, (end - start) / 1000)


def increase(window: Window, start: int, end: int) -> float | None:
    """What a counter rose by over the whole range; None of fewer than two samples."""
    return _risen(window, start, end, 1.0)


def delta(window: Window, start: int, end: int) -> float | None:
    """What a gauge moved by over the whole range; None of fewer than two samples."""
    times = window.times
    if len(times) < 2:
        return None
    moved = window.levels[-1] - window.levels[0]
    sampled = (times[-1] - times[0]) / 1000
    return moved * (_stretched(times, sampled, (times[0] - start) / 1000, end) / sampled)


def irate(window: Window, _start: int, _end: int) -> float | None:
    """What a counter rose by per second between its last two samples; None of fewer than two samples."""
    times = window.times
    if len(times) < 2:
        return None
    last, before = _last_two(window)
    risen = last if last < before else last - before
    return risen / ((times[-1] - times[-2]) / 1000)


def idelta(window: Window, _start: int, _end: int) -> float | None:
    """What a gauge moved by between its last two samples; None of fewer than two samples."""
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
        if level < before:  # set back to zero, so what it had come to is added to what it reads now
            risen += before
        before = level
    sampled = (times[-1] - times[0]) / 1000
    to_start = (times[0] - start) / 1000
    if risen > 0 and first >= 0:
        # No counter is below zero: looking back along its slope it began no earlier than it was zero.
        to_start = min(to_start, sampled * (first / risen))
    return risen * (_stretched(times, sampled, to_start, end) / sampled / per)


def _stretched(times: Sequence[int], sampled: float, to_start: float, end: int) -> float:
    """The seconds that the samples stand for, of which they cover `sampled`."""
    gap = sampled / (len(times) - 1)
    near = gap * _NEAR
    to_end = (end - times[-1]) / 1000
    sampled += to_start if to_start < near else gap / 2
    return sampled + (to_end if to_end < near else gap / 2)


def _last_two(window: Window) -> tuple[float, float]:
    last = window.levels[-1]
    return last, last if window.repeats[-1] > 1 else window.levels[-2]
