"""Points in time as Kubernetes writes them, RFC 3339, and as Unix seconds."""

import datetime


def unix(text: str | None) -> float | None:
    """When that is; None for what is no time, or one without a zone."""
    try:
        parsed = datetime.datetime.fromisoformat(text or "")
        return parsed.timestamp() if parsed.tzinfo else None
    except (ValueError, OverflowError):
        return None


def rfc3339(at: float) -> str:
    """Unix seconds, written with milliseconds and in UTC."""
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def microtime(at: float) -> str:
    """Return Unix seconds as a Kubernetes MicroTime: RFC 3339 in UTC with microseconds."""
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def unix_time(stamp: str) -> float:
    """Seconds since 1970 of an RFC 3339 time stamp. Raises ValueError, also where it names no zone."""
    parsed = datetime.datetime.fromisoformat(stamp)
    if parsed.tzinfo is None:
        raise ValueError(f"a time without a zone: {stamp[:40]!r}")
    return parsed.timestamp()
