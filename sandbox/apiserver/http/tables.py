"""Tables for kubectl: columns, rows, ages, and the computed cells of a pod: READY, STATUS and RESTARTS."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll import rfc3339
from sandbox.apiserver.storage.objects import Json, condition, dig, meta, name_of


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Priority 0 is always shown, 1 with `-o wide`."""

    name: str
    cell: Callable[[Json, float], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


def definitions(columns: Sequence[Column]) -> list[Json]:
    """Return the columnDefinitions of a Table."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]


def row(columns: Sequence[Column], obj: Json, *, now: float) -> list[Any]:
    """Return the cells of one object."""
    return [column.cell(obj, now) for column in columns]


def age(since: str | None, now: float) -> str:
    """Return the age of a timestamp in kubectl's format: 5s, 3m20s, 2h, 4d."""
    if not since:
        return "<unknown>"
    return human_duration(max(0, int(now - rfc3339.parse(since))))


def human_duration(seconds: int) -> str:
    """Return a duration in its one or two most significant units."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _two(days, "d", hours % 24, "h") if days < 8 else f"{days}d"


def _two(high: int, unit: str, low: int, lower_unit: str) -> str:
    return f"{high}{unit}{low}{lower_unit}" if low else f"{high}{unit}"


def _age(obj: Json, now: float) -> str:
    return age(meta(obj).get("creationTimestamp"), now)


NAME = Column("Name", lambda obj, now: name_of(obj), format="name")
AGE = Column("Age", _age)


def ready_containers(obj: Json, now: float) -> str:
    """Return READY: `1/2`."""
    statuses = dig(obj, "status", "containerStatuses") or ()
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(dig(obj, 'spec', 'containers') or ())}"


def restarts(obj: Json, now: float) -> str:
    """Return RESTARTS: the count, and how long ago the last one was."""
    statuses = dig(obj, "status", "containerStatuses") or ()
    count = sum(status.get("restartCount") or 0 for status in statuses)
    ends = [dig(status, "lastState", "terminated", "finishedAt") for status in statuses]
    last = max(filter(None, ends), default=None)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def status_text(obj: Json, now: float) -> str:
    """Return STATUS: the phase, or the reason that keeps the pod from running."""
    if meta(obj).get("deletionTimestamp"):
        return "Unknown" if dig(obj, "status", "reason") == "NodeLost" else "Terminating"
    reason = str(dig(obj, "status", "reason") or dig(obj, "status", "phase") or "Unknown")
    if (condition(obj, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    reason = next(_container_reasons(obj), reason)
    if reason == "Completed" and _runs_something(obj):
        ready = (condition(obj, "Ready") or {}).get("status") == "True"
        return "Running" if ready else "NotReady"
    return reason


def _container_reasons(obj: Json) -> Iterator[str]:
    for status in reversed(dig(obj, "status", "containerStatuses") or ()):
        if waiting := dig(status, "state", "waiting", "reason"):
            yield waiting
        elif (ended := dig(status, "state", "terminated")) is not None:
            yield ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"


def _runs_something(obj: Json) -> bool:
    statuses = dig(obj, "status", "containerStatuses") or ()
    return any(
        status.get("ready") and dig(status, "state", "running") is not None for status in statuses
    )
