"""Patterns on the last lines of a log, as node-problem-detector matches them: RE2, anywhere in the lines, up to their end.

The last N lines are joined by line breaks (fewer ones by empty lines before them), and a pattern must match up to the end of the
last line. `\\z` is appended to the pattern as text, so of the alternatives `a|b` only the last one is bound to the end.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plimsoll import re2
from plimsoll.re2 import Pattern, PatternError

LONGEST = 2000
"""Characters of a pattern."""
_MOST_BYTES, _LONGEST_OF_ALL = 8 << 20, 1 << 20
"""Memory of all patterns of a monitor as one, and characters."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and the problem that its match means."""

    reason: str
    pattern: str
    condition: str
    """The type of the node condition of a permanent problem; empty for a temporary one."""
    suffix: str
    """Appended to the message."""


def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern that may match anywhere. Raises PatternError."""
    return re2.compiled(pattern, longest=LONGEST)


class Match(NamedTuple):
    """A rule that matches, and the lines from the match's start on."""

    rule: Rule
    lines: tuple[str, ...]

    @property
    def message(self) -> str:
        """The lines and the rule's suffix, as node-problem-detector writes them."""
        text = "\n".join(self.lines)
        return f"{text}; {self.rule.suffix}" if self.rule.suffix else text


class LineMatcher:
    """Matches the rules of one monitor on its lines."""

    def __init__(self, rules: Sequence[Rule], lines: int) -> None:
        """`lines`: how many a pattern may span."""
        self._patterns = [(rule, compile_pattern(f"{rule.pattern}\\z")) for rule in rules]
        self._any = _any_of(rules)
        self._lines = deque([""] * lines, maxlen=lines)

    def push(self, text: str) -> list[Match]:
        """Add a line, and return the rules that match up to its end."""
        self._lines.append(text.strip().replace("\n", " "))
        joined = "\n".join(self._lines)
        if self._any is not None and self._any.search(joined) is None:
            return []
        found = ((rule, pattern.search(joined)) for rule, pattern in self._patterns)
        return [
            Match(rule, self._from(joined, match[0] or ""))
            for rule, match in found
            if match is not None
        ]

    def _from(self, joined: str, matched: str) -> tuple[str, ...]:
        """Return the lines that a match touches, whole."""
        start = joined.rfind(matched) if joined.endswith(matched) else joined.find(matched)
        lines = joined.split("\n")[joined[: max(0, start)].count("\n") :]
        return tuple(lines[next((n for n, line in enumerate(lines) if line), 0) :])


def _any_of(rules: Sequence[Rule]) -> Pattern | None:
    """Return all patterns as one; None if they cannot be combined, such as two with a group of one name.

    Most lines match no rule: one search with all patterns is many times cheaper than one for each.
    """
    every = "|".join(f"(?:{rule.pattern}\\z)" for rule in rules)
    try:
        return (
            re2.compiled(every, longest=_LONGEST_OF_ALL, most_bytes=_MOST_BYTES) if rules else None
        )
    except PatternError:
        return None
