"""Selectors: conditions on the labels of series."""

from dataclasses import dataclass, field
from enum import StrEnum

from agent.rules.promql.labels import Labels, value
from agent.rules.promql.regex import Pattern


class Operator(StrEnum):
    """The operator of a matcher."""

    EQUAL = "="
    NOT_EQUAL = "!="
    MATCHES = "=~"
    NOT_MATCHES = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label; a missing label is empty. Regular expressions match the whole value."""

    name: str
    operator: Operator
    value: str
    pattern: Pattern | None = field(default=None, compare=False, repr=False)
    """The compiled value of a regular expression operator."""

    def __call__(self, text: str) -> bool:
        """Return whether a label's value matches."""
        match self.operator:
            case Operator.EQUAL:
                return text == self.value
            case Operator.NOT_EQUAL:
                return text != self.value
            case Operator.MATCHES:
                return self._matches(text)
            case Operator.NOT_MATCHES:
                return not self._matches(text)

    def _matches(self, text: str) -> bool:
        assert self.pattern is not None
        return self.pattern.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Selector:
    """All conditions of a vector selector. `metric`: the metric's name if given by equality, else empty.

    The name is then not repeated in `matchers`.
    """

    metric: str
    matchers: tuple[Matcher, ...] = ()

    def __call__(self, labels: Labels) -> bool:
        """Return whether a series matches."""
        if self.metric and value(labels, "__name__") != self.metric:
            return False
        return all(matcher(value(labels, matcher.name)) for matcher in self.matchers)
