"""Tables for kubectl: columns, rows and ages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll import rfc3339
from sandbox.apiserver.storage.objects import Json, meta, name_of


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
