"""Validates the fields of a rule file as strictly as Prometheus does. All functions raise InvalidError for an invalid value."""

import re
from collections.abc import Mapping
from typing import Any

from agent.rules.promql import labels
from agent.rules.promql.labels import Labels
from plimsoll.text import SentenceError, shown

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII
)
_UNITS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1)
_LONGEST = 31_536_000_000
"""Maximum interval in ms: a year."""
_LONGEST_TEXT = 4096
"""Maximum characters of names and label values, which are repeated for each exported series."""


class InvalidError(SentenceError):
    """A field's value is invalid."""


def record(value: Any) -> str:
    """Return the metric that a rule records."""
    if not (name := text(value)):
        raise InvalidError("record or alert must be set")
    if len(name) > _LONGEST_TEXT or _METRIC.fullmatch(name) is None:
        raise InvalidError(f"record: {shown(name)} is not a valid metric name")
    return name


def expression(value: Any) -> str:
    """Return the text of a rule's expression."""
    if not (expr := text(value)):
        raise InvalidError("expr is missing")
    return expr


def label_values(value: Any) -> Labels:
    """Return the labels of a rule or group."""
    given = mapping(value, "labels")
    for name, text in given.items():
        if len(name) > _LONGEST_TEXT or _LABEL.fullmatch(name) is None or name == labels.NAME:
            raise InvalidError(f"labels: {shown(name)} is not a valid label name")
        if not isinstance(text, str):
            raise InvalidError(f"labels: {name}: expected a single value")
        if len(text) > _LONGEST_TEXT:
            raise InvalidError(f"labels: {name}: more than {_LONGEST_TEXT} characters")
    return tuple(sorted(given.items()))


def interval(value: Any) -> int | None:
    """Return a duration in Prometheus' format, largest unit first, as ms; None if empty or 0."""
    written = text(value)
    if not written or written == "0":
        return None
    match = _DURATION.fullmatch(written) if len(written) <= 40 else None
    if match is None:
        raise InvalidError(f"{shown(written)} is not a duration (write it like 5s or 1m30s)")
    total = sum(int(n) * unit for n, unit in zip(match.groups("0"), _UNITS, strict=True))
    if total > _LONGEST:
        raise InvalidError(f"{shown(written)} is longer than a year")
    return total or None


def limit(value: Any) -> int:
    """Return the `limit` of a group; 0 for none."""
    written = text(value) or "0"
    if not written.isascii() or not written.isdigit() or len(written) > 18:
        raise InvalidError(f"limit: {shown(written)} is not a number")
    return int(written)


def text(value: Any) -> str:
    """Return a scalar as text; empty for none."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidError("expected a single value, not a list or fields")
    return value


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a mapping; empty for none."""
    if value in ("", None):
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidError(f"{where}: expected fields with values")
    return value


def sequence(value: Any, where: str) -> list[Any]:
    """Return a list; empty for none."""
    if value in ("", None):
        return []
    if not isinstance(value, list):
        raise InvalidError(f"{where}: expected a list")
    return value
