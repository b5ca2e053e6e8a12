"""Range vectors: the samples of selectors and subqueries over a length of time."""

from collections.abc import Iterable, Iterator

from agent.rules.promql.budget import POINT
from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.labels import Labels
from agent.rules.promql.plan import Instant, Need, Range, Scope
from agent.rules.promql.syntax.selectors import Selection
from agent.rules.promql.values import EvaluationError, Moment, Window, same

MOST_STEPS = 11_000
"""Evaluations that the subqueries of an expression may ask for together; Prometheus' own limit of points."""
STEP = 5_000
"""Milliseconds between steps that are not said, where an expression is judged without a moment."""


def selected(selection: Selection, length: int, scope: Scope) -> Range:
    """The samples of each series that a selector matches."""
    selector = selection.selector
    scope.needs.append(Need(selector, max(0, scope.reach + selection.offset + length)))

    def samples(moment: Moment, start: int, end: int) -> Iterator[tuple[Labels, Window]]:
        for series in moment.storage.select(selector):
            window = series.window(start, end)
            if window is not None:
                yield series.labels, window

    return Range(samples, length, selection.offset, selector)


def inside(scope: Scope, length: int, step: int, offset: int) -> Scope:
    """The scope of what a subquery evaluates; ExpressionError where that would be too often."""
    times = scope.times * (length // (step or STEP) + 1)
    inner = scope.within(length + offset, times)
    if sum(scope.steps) > MOST_STEPS:
        raise ExpressionError(_too_many(sum(scope.steps)), "unsupported")
    return inner


def subquery(inner: Instant, length: int, step: int, offset: int) -> Range:
    """A vector's values at each step, those that are multiples of the step in Unix time; a step of 0 is the moment's own."""
    plan = inner.plan

    def samples(moment: Moment, start: int, end: int) -> Iterable[tuple[Labels, Window]]:
        every, epoch = step or moment.step, moment.epoch
        first = start + -(start + epoch) % every
        count = (end - first) // every + 1
        if count > MOST_STEPS:
            raise EvaluationError(_too_many(count))
        found: dict[Labels, _Runs] = {}
        storage, own, budget = moment.storage, moment.step, moment.budget
        kept = budget.used
        for time in range(first, end + 1, every):
            budget.used = kept  # what the step before took is reused, only its points stay
            vector = plan(Moment(storage, time, epoch, own, budget))
            budget.take(POINT * len(vector))
            kept += POINT * len(vector)
            for labels, value in vector:
                runs = found.get(labels)
                if runs is None:
                    found[labels] = ([time], [value], [1])
                else:
                    _append(runs, time, value)
        return [(labels, Window(*runs)) for labels, runs in found.items()]

    return Range(samples, length, offset)


_Runs = tuple[list[int], list[float], list[int]]
"""Times, levels and repeats of a window."""


def _append(runs: _Runs, time: int, value: float) -> None:
    times, levels, repeats = runs
    times.append(time)
    if same(levels[-1], value):
        repeats[-1] += 1
    else:
        levels.append(value)
        repeats.append(1)


def _too_many(count: int) -> str:
    return f"{count} steps of subqueries; {MOST_STEPS} are the most"
