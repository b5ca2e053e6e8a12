"""The values of a rule file's fields, as strictly as Prometheus reads them. All raise InvalidError for a value that is not valid."""

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
"""Milliseconds of an interval: a year."""
_LONGEST_TEXT = 4096
"""Characters of a metric's name, and of a label's name or value: each series that is exported repeats them."""


class InvalidError(SentenceError):
    """A value that is not valid in its field."""


def record(value: Any) -> str:
    """The metric that a rule records."""
    if not (found := text(value)):
        raise InvalidError("one of record and alert is missing")
    if len(found) > _LONGEST_TEXT or _METRIC.fullmatch(found) is None:
        raise InvalidError(f"record: {shown(found)} is no name of a metric")
    return found


def expression(value: Any) -> str:
    """The text of a rule's expression."""
    if not (found := text(value)):
        raise InvalidError("expr is missing")
    return found


def label_values(value: Any) -> Labels:
    """The labels of a rule or a group."""
    found = mapping(value, "labels")
    for name, text in found.items():
        if len(name) > _LONGEST_TEXT or _LABEL.fullmatch(name) is None or name == labels.NAME:
            raise InvalidError(f"labels: {shown(name)} is no name of a label")
        if not isinstance(text, str):
            raise InvalidError(f"labels: {name}: a single value belongs here")
        if len(text) > _LONGEST_TEXT:
            raise InvalidError(f"labels: {name}: more than {_LONGEST_TEXT} characters")
    return tuple(sorted(found.items()))


def interval(value: Any) -> int | None:
    """Milliseconds of a duration as Prometheus writes it, biggest unit first; None for none or 0."""
    written = text(value)
    if not written or written == "0":
        return None
    found = _DURATION.fullmatch(written) if len(written) <= 40 else None
    if found is None:
        raise InvalidError(f"{shown(written)} is no duration (write it like 5s or 1m30s)")
    total = sum(int(n) * unit for n, unit in zip(found.groups("0"), _UNITS, strict=True))
    if total > _LONGEST:
        raise InvalidError(f"{shown(written)} is longer than a year")
    return total or None


def limit(value: Any) -> int:
    """The `limit` of a group; 0 for none."""
    written = text(value) or "0"
    if not written.isascii() or not written.isdigit() or len(written) > 18:
        raise InvalidError(f"limit: {shown(written)} is no number")
    return int(written)


def text(value: Any) -> str:
    """A single value; empty for none."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidError("a single value belongs where there is a list or fields")
    return value


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Fields and their values; empty for none."""
    if value in ("", None):
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidError(f"{where}: fields and their values belong here")
    return value


def sequence(value: Any, where: str) -> list[Any]:
    """A list; empty for none."""
    if value in ("", None):
        return []
    if not isinstance(value, list):
        raise InvalidError(f"{where}: a list belongs here")
    return value
