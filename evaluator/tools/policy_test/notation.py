"""Parses series in the notation of `promtool test rules`: `0+10x30 _x3 stale`.

https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series
"""

import math
import re
from collections.abc import Iterator

from plimsoll.text import shown

STALE = None
"""A stale marker: the metric is absent from here on."""
MOST_VALUES = 1_000_000
"""Values of one series."""

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?[iI]nf|[nN]a[nN]"
_VALUES = re.compile(
    rf"({_NUMBER})(?:([-+](?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?))?(?:x(\d{{1,7}}))?"
)
_GAP = re.compile(r"_(?:x(\d{1,7}))?")


def values(text: str) -> list[tuple[int, float | None]]:
    """Return (number of the interval, value) pairs; gaps are left out, a stale marker is STALE. Raises ValueError."""
    found: list[tuple[int, float | None]] = []
    position = 0
    for item in text.split():
        if (gap := _GAP.fullmatch(item)) is not None:
            position += int(gap[1] or 1)
            continue
        for value in _expanded(item):
            found.append((position, value))
            position += 1
            if len(found) > MOST_VALUES:
                raise ValueError(f"more than {MOST_VALUES} values")
    return found


def _expanded(item: str) -> Iterator[float | None]:
    if item == "stale":
        yield STALE
        return
    match = _VALUES.fullmatch(item)
    if match is None or (match[2] and not match[3]):
        raise ValueError(
            f"not a value: {shown(item)} (write 1, 0+10x30, 5x3, _ or _x3 for no sample, or stale)"
        )
    begin, difference = float(match[1]), float(match[2] or 0)
    for number in range(int(match[3] or 0) + 1):
        yield begin + number * difference if number and not math.isinf(begin) else begin
