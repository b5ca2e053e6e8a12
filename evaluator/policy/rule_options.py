"""What a rule compares with, for how long, and what a missing reading means to it; as policies write it.

`for`, `clearAfter` and `whenMissing` are ours: Telemetry Aware Scheduling ignores them. A strategy's are the default of
its rules.
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
    """What a node without a usable reading is to a rule."""

    IGNORE = "ignore"
    VIOLATE = "violate"


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Seconds that a comparison must have been true for a violation to begin, and false for it to end.

    And whether a missing reading is as if the comparison were true.
    """

    for_seconds: float = 0.0
    clear_after: float = 0.0
    when_missing: WhenMissing = WhenMissing.IGNORE

    @property
    def timed(self) -> bool:
        """Whether the past matters."""
        return self.for_seconds > 0 or self.clear_after > 0


PLAIN = RuleOptions()
"""As Telemetry Aware Scheduling has it: at once, and a missing reading is nothing."""


def parse_options(body: Mapping[str, Any], common: RuleOptions) -> RuleOptions:
    """The terms of a rule or a strategy; `common` where it says nothing. Raises ValueError with a sentence."""
    return RuleOptions(
        _seconds(body, "for", common.for_seconds),
        _seconds(body, "clearAfter", common.clear_after),
        _when_missing(body.get("whenMissing"), common.when_missing),
    )


def _seconds(body: Mapping[str, Any], name: str, default: float) -> float:
    given = body.get(name)
    if given is None:
        return default
    try:
        if not isinstance(given, str):
            raise ValueError(
                f"not a duration: {shown(given)} (write it like 30s or 1m30s, in quotes)"
            )
        return duration(given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _when_missing(given: object, default: WhenMissing) -> WhenMissing:
    if given is None:
        return default
    if not isinstance(given, str) or given not in tuple(WhenMissing):
        raise ValueError(f"whenMissing {shown(given)} is neither ignore nor violate")
    return WhenMissing(given)


def number(given: object) -> float:
    """The number that a target says: itself, or a quantity as text; 0 where there is none. Raises ValueError."""
    match given:
        case None:
            return 0
        case str():
            return quantity.parse(given)
        case int() | float() if not isinstance(given, bool) and _finite(given):
            return given
        case _:
            raise ValueError("neither a number nor a quantity")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no double can hold
        return False


def spelled(value: float) -> str:
    """A number as a person would have written it: 3, not 3.0."""
    return str(int(value)) if abs(value) < 1e16 and value == int(value) else str(value)
