"""Timestamps of the Kubernetes API (RFC 3339) to and from Unix seconds.

metav1.Time has whole seconds, metav1.MicroTime microseconds:
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/
"""

import datetime
from functools import lru_cache

EARLIEST, LATEST = -62135596800.0, 253402300799.0
"""The Unix seconds of the years 1 to 9999, which a timestamp can have."""
_KEPT = 1 << 10  # cached texts: all conditions of a node often have the same time


def parse(text: str) -> float:
    """Return a timestamp as Unix seconds. Raises ValueError for anything else: without a zone, or beyond the years 1 to 9999 (UTC)."""
    parsed = datetime.datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError(f"a time without a zone: {text[:40]!r}")
    if not EARLIEST <= (at := parsed.timestamp()) <= LATEST:
        raise ValueError(f"a time out of range: {text[:40]!r}")
    return at


@lru_cache(_KEPT)
def parse_or_none(text: str | None) -> float | None:
    """Return a timestamp as Unix seconds, or None if the text is empty or not a valid timestamp."""
    try:
        return parse(text or "")
    except ValueError:
        return None


def bounded(at: str | float | None, now: float) -> float | None:
    """Return a time from outside as Unix seconds, at most `now`; None for anything that is not a time.

    Clocks of persons, agents and other clients may be ahead, and anyone with the right to write an object may write any year.
    """
    if isinstance(at, str):
        at = parse_or_none(at)
    return None if at is None or not at >= EARLIEST else min(at, now)


def seconds(at: float) -> str:
    """Return Unix seconds as metav1.Time: `2026-11-20T09:15:04Z`."""
    return _written(at, "seconds")


def millis(at: float) -> str:
    """Return Unix seconds with milliseconds: `2026-11-20T09:15:04.250Z`."""
    return _written(at, "milliseconds")


def micros(at: float) -> str:
    """Return Unix seconds as metav1.MicroTime: `2026-11-20T09:15:04.123456Z`."""
    return _written(at, "microseconds")


def _written(at: float, timespec: str) -> str:
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
