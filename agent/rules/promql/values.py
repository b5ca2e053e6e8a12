"""What an expression is computed from and what comes out: the storage of series, windows of samples, a moment, and values.

Times are integers, milliseconds on the storage's own clock. That clock never goes back; `Moment.epoch` says how far it is
from the Unix epoch at this moment.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.rules.promql.budget import Budget
from agent.rules.promql.labels import Labels
from agent.rules.promql.syntax.matchers import Selector
from plimsoll.text import SentenceError

LOOKBACK = 300_000
"""How old (ms) a sample may be to count as a series' present value, as in Prometheus (--query.lookback-delta)."""

Vector = list[tuple[Labels, float]]
"""An instant vector: one value of each series, in any order, no label set twice."""

Value = float | str | Vector
"""What an expression yields: a scalar, a string or an instant vector."""


class EvaluationError(SentenceError):
    """An expression that cannot be computed from these samples, such as a match of many to many."""


LONGEST_LABEL = 4096
"""Characters of a label's value that an expression makes; joined with itself over and over, one would fill the memory."""


def join_value(separator: str, parts: Sequence[str]) -> str:
    """The parts as one label value. EvaluationError, before it is built, if it is too long."""
    length = sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0)
    if length > LONGEST_LABEL:
        raise EvaluationError(f"a label of more than {LONGEST_LABEL} characters")
    return separator.join(parts)


def same(one: float, other: float) -> bool:
    """Whether two values are the same sample: NaN is NaN, 0 is not -0."""
    if one == other:
        return one != 0 or math.copysign(1, one) == math.copysign(1, other)
    return one != one and other != other


@dataclass(slots=True)
class Window:
    """The samples of one series in a closed range of time, oldest first; never empty.

    Samples in succession that are the same (`same`) share a level, so what hardly ever changes is looked at in a few steps. `sum(repeats)` is the number of samples, `len(times)`.
    """

    times: Sequence[int]
    """Milliseconds, rising."""
    levels: Sequence[float]
    """The values, without repetition of the one before."""
    repeats: Sequence[int]
    """How many samples in succession have this value; as many entries as `levels`."""

    def values(self) -> list[float]:
        """The value of each sample, as many as `times`."""
        if len(self.levels) == len(self.times):
            return list(self.levels)
        found: list[float] = []
        for level, repeat in zip(self.levels, self.repeats, strict=True):
            found += [level] * repeat
        return found


class Series(Protocol):
    """One series, as a storage keeps it."""

    @property
    def labels(self) -> Labels:
        """Its label set, the metric's name among them."""
        ...

    def at(self, time: int, after: int) -> tuple[int, float] | None:
        """Time and value of the latest sample not later than `time`, if it is later than `after`.

        None too where the series was marked stale since.
        """
        ...

    def window(self, start: int, end: int) -> Window | None:
        """The samples from `start` to `end`, both included; None where there are none."""
        ...


class Storage(Protocol):
    """Where samples are kept."""

    def select(self, selector: Selector) -> Sequence[Series]:
        """The series that a selector matches, in any order."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """The samples, and the time at which an expression is evaluated over them."""

    storage: Storage = field(repr=False)
    time: int
    """Milliseconds on the storage's clock."""
    epoch: int = 0
    """Milliseconds to add to a time on the storage's clock to have Unix time."""
    step: int = 5_000
    """Milliseconds between the steps of a subquery that does not say its own."""
    budget: Budget = field(default_factory=Budget, repr=False, compare=False)


Plan = Callable[[Moment], Value]
"""A compiled expression, or a part of one."""
