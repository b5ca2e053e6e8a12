"""Go's duration syntax for flags and policies: 5s, 250ms, 1m30s."""

import math
import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = r"(\d++(?:\.\d*+)?|\.\d++)(h|ms|us|µs|ns|m|s)"
_PARTS = re.compile(_PART, re.ASCII)
_LONGEST = 100
"""Maximum characters. Go has no limit, but summing many parts takes time, and policies come from tenants."""
# Possessive quantifiers: without backtracking, matching is linear in the length.
_DURATION = re.compile(f"(?:{_PART})++", re.ASCII)


def duration(text: str) -> float:
    """Return a Go duration as seconds: `5s`, `250ms`, `1m30s`, `0`. Raises ValueError for anything else."""
    if text == "0":
        return 0.0
    whole = len(text) <= _LONGEST and _DURATION.fullmatch(text) is not None
    parts = _PARTS.finditer(text) if whole else ()
    seconds = sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts)
    if not whole or math.isinf(seconds):
        raise ValueError(f"not a duration: {text[:40]!r} (write it like 500ms, 5s or 1m30s)")
    return seconds


def format_duration(seconds: float) -> str:
    """Return seconds as a Go duration: 5s, 250ms, 1m30s."""
    if seconds == 0:
        return "0s"
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{amount:g}{unit}" for amount, unit in parts if amount)
