"""Selectors: which series an expression names, by their labels."""

from dataclasses import dataclass, field
from enum import StrEnum

from agent.rules.promql.labels import Labels, value
from agent.rules.promql.regex import Pattern


class Operator(StrEnum):
    """How a matcher compares."""

    EQUAL = "="
    NOT_EQUAL = "!="
    MATCHES = "=~"
    NOT_MATCHES = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label; a label that is not there is empty. Regular expressions match the whole value."""

    name: str
    operator: Operator
    value: str
    pattern: Pattern | None = field(default=None, compare=False, repr=False)
    """The compiled value, where the operator wants one."""

    def __call__(self, found: str) -> bool:
        """Whether a label's value passes."""
        match self.operator:
            case Operator.EQUAL:
                return found == self.value
            case Operator.NOT_EQUAL:
                return found != self.value
            case Operator.MATCHES:
                return self._matches(found)
            case Operator.NOT_MATCHES:
                return not self._matches(found)

    def _matches(self, found: str) -> bool:
        assert self.pattern is not None
        return self.pattern.fullmatch(found) is not None


@dataclass(frozen=True, slots=True)
class Selector:
    """All conditions of one vector selector. `metric` is the metric's name where it is given plainly, else empty.

    The name is then not among `matchers` again.
    """

    metric: str
    matchers: tuple[Matcher, ...] = ()

    def __call__(self, labels: Labels) -> bool:
        """Whether a series passes."""
        if self.metric and value(labels, "__name__") != self.metric:
            return False
        return all(matcher(value(labels, matcher.name)) for matcher in self.matchers)
