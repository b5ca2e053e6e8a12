"""Parts of a compiled expression, by the type they yield."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import promql_parser

from agent.rules.promql.labels import Labels
from agent.rules.promql.regex import Pattern
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.syntax.parser import Selection
from agent.rules.promql.values import Moment, Vector, Window

Samples = Callable[[Moment, int, int], Iterable[tuple[Labels, Window]]]
"""Returns, for a moment and inclusive bounds in ms, the series with samples in that range."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """Yields a number."""

    plan: Callable[[Moment], float]


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal."""

    text: str


@dataclass(frozen=True, slots=True)
class Instant:
    """Yields an instant vector."""

    plan: Callable[[Moment], Vector]
    selection: Selection | None = None
    """Set if this is a plain selector."""


@dataclass(frozen=True, slots=True)
class Range:
    """Yields a range vector: samples of a selector or subquery over `length` ms, ending `offset` ms before the moment."""

    samples: Samples
    length: int
    offset: int
    selector: Selector | None = None
    """None for a subquery."""


Part = Scalar | Text | Instant | Range


@dataclass(frozen=True, slots=True)
class Need:
    """Series that an expression reads."""

    selector: Selector
    reach: int
    """Age (ms) of the oldest sample read, relative to the evaluation; 0: only current values."""


@dataclass(frozen=True, slots=True)
class Span:
    """The length of a range in an expression."""

    length: int
    """Milliseconds."""
    moved: int
    """Milliseconds by which its end is away from the evaluation; 1 if it ends at a step of a subquery."""
    step: int | None = None
    """Milliseconds between the steps of a subquery, 0 for the default; None for samples."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The position of a part in an expression."""

    pattern: Callable[[promql_parser.Matcher], Pattern]
    """Returns the compiled regular expression of a matcher."""
    needs: list[Need] = field(default_factory=list)
    """Series needed by the parts compiled so far, of the whole expression."""
    spans: list[Span] = field(default_factory=list)
    """Ranges compiled so far, of the whole expression."""
    steps: list[int] = field(default_factory=list)
    """Evaluations of each subquery so far, of the whole expression, per evaluation of the whole."""
    depth: int = 0
    reach: int = 0
    """Milliseconds before the whole expression's time at which a part may be evaluated; negative: only after it."""
    times: int = 1
    """Evaluations of the part per evaluation of the whole expression."""
    in_subquery: bool = False

    def deeper(self) -> "Scope":
        """Return the scope of the next level of nesting."""
        return replace(self, depth=self.depth + 1)

    def span(self, length: int, offset: int, step: int | None = None) -> None:
        """Note a range that is part of the expression here."""
        self.spans.append(Span(length, 1 if self.in_subquery else abs(offset), step))

    def within(self, reach: int, times: int) -> "Scope":
        """Return the scope within a subquery that reaches back `reach` ms and is evaluated `times` times."""
        self.steps.append(times)
        return replace(
            self, depth=self.depth + 1, reach=self.reach + reach, times=times, in_subquery=True
        )
