"""The parts that a compiled expression is made of, by what they yield."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import promql_parser

from agent.rules.promql.labels import Labels
from agent.rules.promql.regex import Pattern
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.syntax.selectors import Selection
from agent.rules.promql.values import Moment, Vector, Window

Samples = Callable[[Moment, int, int], Iterable[tuple[Labels, Window]]]
"""Of a moment and the bounds of a range in ms, both included: each series that has samples there."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number at each moment."""

    plan: Callable[[Moment], float]


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal."""

    text: str


@dataclass(frozen=True, slots=True)
class Instant:
    """A vector."""

    plan: Callable[[Moment], Vector]
    selection: Selection | None = None
    """Set where it is a plain selector."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range vector: a selector's or a subquery's samples over a length of time (ms), ending at an offset before the moment."""

    samples: Samples
    length: int
    offset: int
    selector: Selector | None = None
    """None where it is a subquery."""


Part = Scalar | Text | Instant | Range


@dataclass(frozen=True, slots=True)
class Need:
    """The series that an expression looks at."""

    selector: Selector
    reach: int
    """How long before the evaluation (ms) samples may be looked at; 0: only what is there at that time."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where in an expression a part stands."""

    pattern: Callable[[promql_parser.Matcher], Pattern]
    """The regular expression of a matcher."""
    needs: list[Need] = field(default_factory=list)
    """What was found to be needed so far, in the whole expression."""
    steps: list[int] = field(default_factory=list)
    """How often each subquery found so far, in the whole expression, is evaluated for one evaluation of the whole."""
    depth: int = 0
    reach: int = 0
    """How long before the evaluation of the whole a part may be evaluated, in ms; negative: only after it."""
    times: int = 1
    """How often a part is evaluated for one evaluation of the whole."""

    def deeper(self) -> "Scope":
        """One level down."""
        return replace(self, depth=self.depth + 1)

    def within(self, reach: int, times: int) -> "Scope":
        """In a subquery that goes back so far, evaluated so many times."""
        self.steps.append(times)
        return replace(self, depth=self.depth + 1, reach=self.reach + reach, times=times)
