"""Parses the times of a range: RFC 3339, Unix seconds, `now`, or a time ago such as 7d."""

import re

from plimsoll import durations, rfc3339
from plimsoll.text import shown

_DAYS = re.compile(r"(?:(\d{1,5})w)?(?:(\d{1,5})d)?(.*)", re.ASCII)
_UNIX = re.compile(r"\d{9,11}(\.\d+)?", re.ASCII)


def span(text: str) -> float:
    """Return a duration as seconds: 15s, 36h, 7d, 2w, 1d12h. Raises ValueError."""
    match = _DAYS.fullmatch(text)
    weeks, days, rest = match.groups() if match else (None, None, text)
    if not rest and not (weeks or days):
        raise ValueError(f"not a duration: {shown(text)} (write it like 15s, 12h or 7d)")
    seconds = durations.duration(rest) if rest else 0.0
    return int(weeks or 0) * 7 * 86400 + int(days or 0) * 86400 + seconds


def moment(text: str, end: float) -> float:
    """Return a time as Unix seconds; a duration counts back from `end`. Raises ValueError."""
    if text == "now":
        return end
    if _UNIX.fullmatch(text):
        return float(text)
    try:
        return rfc3339.parse(text)
    except ValueError:
        pass
    try:
        return end - span(text)
    except ValueError as error:
        raise ValueError(
            f"not a time: {shown(text)} (write it like 2026-11-15T00:00:00Z, 1763164800, or 7d for seven days before the end)"
        ) from error
