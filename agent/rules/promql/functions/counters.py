"""How often a series changed, and how often it was set back."""

from agent.rules.promql.values import Window


def changes(window: Window, _start: int, _end: int) -> float:
    """How often the value was another than in the sample before; NaN after NaN is no change."""
    levels = window.levels
    found = 0
    before = levels[0]
    for level in levels:
        if level != before and (level == level or before == before):
            found += 1
        before = level
    return float(found)


def resets(window: Window, _start: int, _end: int) -> float:
    """How often the value was less than in the sample before, as a counter's is after its process started anew."""
    levels = window.levels
    found = 0
    before = levels[0]
    for level in levels:
        if level < before:
            found += 1
        before = level
    return float(found)
