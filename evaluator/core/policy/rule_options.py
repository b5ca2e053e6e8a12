"""Parses the options of rules: target, `for`, `clearAfter` and `whenMissing`.

The last three are extensions that Telemetry Aware Scheduling ignores. Those of a strategy are the defaults of its rules.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from plimsoll import quantity
from plimsoll.durations import duration
from plimsoll.text import shown


class WhenMissing(StrEnum):
    """How a rule treats a node without a usable reading."""

    IGNORE = "ignore"
    VIOLATE = "violate"


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Durations of a rule, and its treatment of missing readings.

    `for_seconds`: how long the comparison must be true before the rule is violated. `clear_after`: how long it must
    be false before the violation ends. `when_missing`: whether a missing reading counts as a match.
    """

    for_seconds: float = 0.0
    clear_after: float = 0.0
    when_missing: WhenMissing = WhenMissing.IGNORE

    @property
    def timed(self) -> bool:
        """Whether the result depends on earlier readings."""
        return self.for_seconds > 0 or self.clear_after > 0


PLAIN = RuleOptions()
"""Telemetry Aware Scheduling's behaviour: no durations, and missing readings are ignored."""


def parse_options(body: Mapping[str, Any], common: RuleOptions) -> RuleOptions:
    """Return the options of a rule or strategy; absent ones are taken from `common`. Raises ValueError."""
    return RuleOptions(
        _seconds(body, "for", common.for_seconds),
        _seconds(body, "clearAfter", common.clear_after),
        _when_missing(body.get("whenMissing"), common.when_missing),
    )


def _seconds(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    try:
        if not isinstance(value, str):
            raise ValueError(
                f"not a duration: {shown(value)} (write it like 30s or 1m30s, in quotes)"
            )
        return duration(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _when_missing(value: object, default: WhenMissing) -> WhenMissing:
    if value is None:
        return default
    if not isinstance(value, str) or value not in tuple(WhenMissing):
        raise ValueError(f"whenMissing {shown(value)} is neither ignore nor violate")
    return WhenMissing(value)


def number(value: object) -> float:
    """Return the number of a target: a number, or a quantity as text; 0 if absent. Raises ValueError."""
    match value:
        case None:
            return 0
        case str():
            return quantity.parse(value)
        case int() | float() if not isinstance(value, bool) and _finite(value):
            return value
        case _:
            raise ValueError("neither a number nor a quantity")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no double can hold
        return False


def formatted(value: float) -> str:
    """Return a number in its shortest form: 3, not 3.0."""
    return str(int(value)) if abs(value) < 1e16 and value == int(value) else str(value)
