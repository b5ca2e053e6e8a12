"""Recording rules that fail on a node, as agents report them. Imports no protobuf: an agent without a stream saves its memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MOST, MOST_BYTES = 20, 8 << 10
"""Failing rules in one report, and bytes of their text; the others are counted."""
LONGEST = 200
"""Characters of each text."""


class FailingRule(NamedTuple):
    """A rule that fails, and why; a whole group if `rule` is empty, or a rule file if `group` is empty too."""

    file: str
    """The name, without its folder, of a rule file that cannot be used; else empty."""
    group: str
    rule: str
    """The metric that the rule records."""
    reason: str
    """One word, as in the label `reason` of `plimsoll_rule_error`."""
    text: str

    @property
    def identity(self) -> tuple[str, ...]:
        """All but the text, which may have numbers that change."""
        return self[:-1]


@dataclass(frozen=True, slots=True)
class FailingRules:
    """The failing rules of a node, with the seconds since when each fails; `more`: how many others fail."""

    seconds: Mapping[FailingRule, float] = field(default_factory=dict)
    more: int = 0


NONE = FailingRules()
