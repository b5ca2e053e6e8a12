"""Inputs and results of expressions: the storage interface, windows of samples, moments and values.

Times are integers in ms of the storage's monotonic clock; `Moment.epoch` is its distance from the Unix epoch.
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
"""Age (ms) from which on a sample no longer counts as a series' current value, as in Prometheus (--query.lookback-delta)."""

Vector = list[tuple[Labels, float]]
"""An instant vector: one value per series, in any order, label sets unique."""

Value = float | str | Vector
"""The result of an expression: a scalar, a string or an instant vector."""


class EvaluationError(SentenceError):
    """An expression cannot be computed from these samples, e.g. because of many-to-many matches."""


LONGEST_LABEL = 4096
"""Maximum length in characters of a label value made by an expression; repeated joins could otherwise fill the memory."""


def join_value(separator: str, parts: Sequence[str]) -> str:
    """Return the parts joined as one label value. Raises EvaluationError, before building it, if it is too long."""
    length = sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0)
    if length > LONGEST_LABEL:
        raise EvaluationError(f"a label has more than {LONGEST_LABEL} characters")
    return separator.join(parts)


def same(a: float, b: float) -> bool:
    """Return whether two values are the same sample: NaN equals NaN, 0 does not equal -0."""
    if a == b:
        return a != 0 or math.copysign(1, a) == math.copysign(1, b)
    return a != a and b != b


@dataclass(slots=True)
class Window:
    """The samples of one series in a time range, oldest first; never empty.

    Equal consecutive samples (`same`) share a level, so a series that rarely changes is processed in a few steps.
    `sum(repeats)` is the number of samples, `len(times)`.
    """

    times: Sequence[int]
    """Milliseconds, ascending."""
    levels: Sequence[float]
    """The values without consecutive repetitions."""
    repeats: Sequence[int]
    """How many consecutive samples have each value; as many entries as `levels`."""

    def values(self) -> list[float]:
        """Return the value of each sample, as many as `times`."""
        if len(self.levels) == len(self.times):
            return list(self.levels)
        values: list[float] = []
        for level, repeat in zip(self.levels, self.repeats, strict=True):
            values += [level] * repeat
        return values


class Series(Protocol):
    """One series of a storage."""

    @property
    def labels(self) -> Labels:
        """The label set, including the metric's name."""
        ...

    def at(self, time: int, after: int) -> tuple[int, float] | None:
        """Return time and value of the latest sample not later than `time`, if it is later than `after`.

        None also if the series was marked stale since.
        """
        ...

    def window(self, start: int, end: int) -> Window | None:
        """Return the samples from `start` to `end`, both inclusive; None if there are none."""
        ...


class Storage(Protocol):
    """Interface of sample storage."""

    def select(self, selector: Selector) -> Sequence[Series]:
        """Return the series that a selector matches, in any order."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """The samples and the time of one evaluation."""

    storage: Storage = field(repr=False)
    time: int
    """Milliseconds of the storage's clock."""
    epoch: int = 0
    """Offset in ms from the storage's clock to Unix time."""
    step: int = 5_000
    """Default step of a subquery in ms."""
    closed: bool = False
    """Whether ranges and the lookback include a sample that is exactly as old, as before Prometheus 3."""
    budget: Budget = field(default_factory=Budget, repr=False, compare=False)

    def oldest(self, start: int) -> int:
        """Return the earliest time (ms) of a sample in a range that begins at `start`."""
        return start if self.closed else start + 1


Plan = Callable[[Moment], Value]
"""A compiled expression or a part of one."""
