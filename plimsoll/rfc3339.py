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
