"""Functions that count changes and resets of a series."""

from agent.rules.promql.values import Window


def changes(window: Window, _start: int, _end: int) -> float:
    """Return how many samples differ from the sample before; NaN after NaN is no change."""
    levels = window.levels
    count = 0
    before = levels[0]
    for level in levels:
        if level != before and (level == level or before == before):
            count += 1
        before = level
    return float(count)


def resets(window: Window, _start: int, _end: int) -> float:
    """Return how many samples are less than the sample before, as a counter's are after its process restarted."""
    levels = window.levels
    count = 0
    before = levels[0]
    for level in levels:
        if level < before:
            count += 1
        before = level
    return float(count)
