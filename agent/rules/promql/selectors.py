"""Vectors of selectors: current values and their timestamps, and samples over a time range, also of subqueries."""

from collections.abc import Callable, Iterable, Iterator

from agent.rules.promql.budget import POINT
from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.labels import Labels
from agent.rules.promql.plan import Instant, Need, Range, Scope
from agent.rules.promql.syntax.parser import Selection
from agent.rules.promql.values import LOOKBACK, EvaluationError, Moment, Vector, Window, same

MOST_STEPS = 11_000
"""Maximum of evaluations by all subqueries of an expression; Prometheus' limit of points."""
STEP = 5_000
"""Default step of a subquery in ms where an expression is checked without a moment."""
_Runs = tuple[list[int], list[float], list[int]]
"""Times, levels and repeats of a window."""


def instant_vector(selection: Selection, scope: Scope) -> Instant:
    """Return a part with the current value of each series that a selector matches."""
    selector, offset = selection.selector, selection.offset
    moved = scope.reach or offset or scope.times > 1
    reach = max(0, scope.reach + offset + LOOKBACK) if moved else 0
    scope.needs.append(Need(selector, reach))

    def plan(moment: Moment) -> Vector:
        time = moment.time - offset
        after = moment.oldest(time - LOOKBACK) - 1
        samples: Vector = []
        for series in moment.storage.select(selector):
            sample = series.at(time, after)
            if sample is not None:
                samples.append((series.labels, sample[1]))
        return samples

    return Instant(plan, selection)


def timestamps(selection: Selection) -> Callable[[Moment], Vector]:
    """Return a plan with the timestamp of each series' current value, in Unix seconds."""
    selector, offset = selection.selector, selection.offset

    def plan(moment: Moment) -> Vector:
        time, epoch = moment.time - offset, moment.epoch
        after = moment.oldest(time - LOOKBACK) - 1
        times: Vector = []
        for series in moment.storage.select(selector):
            sample = series.at(time, after)
            if sample is not None:
                times.append((series.labels, (sample[0] + epoch) / 1000))
        return times

    return plan


def range_vector(selection: Selection, length: int, scope: Scope) -> Range:
    """Return a part with the samples of each series that a selector matches."""
    selector = selection.selector
    scope.needs.append(Need(selector, max(0, scope.reach + selection.offset + length)))
    scope.span(length, selection.offset)

    def samples(moment: Moment, start: int, end: int) -> Iterator[tuple[Labels, Window]]:
        for series in moment.storage.select(selector):
            window = series.window(start, end)
            if window is not None:
                yield series.labels, window

    return Range(samples, length, selection.offset, selector)


def inside(scope: Scope, length: int, step: int, offset: int) -> Scope:
    """Return the scope of a subquery's expression. Raises ExpressionError if it would be evaluated too often."""
    times = scope.times * (length // (step or STEP) + 1)
    scope.span(length, offset, step)
    inner = scope.within(length + offset, times)
    if sum(scope.steps) > MOST_STEPS:
        raise ExpressionError(_too_many(sum(scope.steps)), "unsupported")
    return inner


def subquery(inner: Instant, length: int, step: int, offset: int) -> Range:
    """Return a part that evaluates a vector at each step.

    Steps are multiples of `step` in Unix time; 0 means the moment's default.
    """
    plan = inner.plan

    def samples(moment: Moment, start: int, end: int) -> Iterable[tuple[Labels, Window]]:
        every, epoch = step or moment.step, moment.epoch
        first = start + -(start + epoch) % every
        count = (end - first) // every + 1
        if count > MOST_STEPS:
            raise EvaluationError(_too_many(count))
        runs_by_series: dict[Labels, _Runs] = {}
        storage, own, closed, budget = moment.storage, moment.step, moment.closed, moment.budget
        kept = budget.used
        for time in range(first, end + 1, every):
            budget.used = (
                kept  # a step's memory is reused by the next one, only its points are kept
            )
            vector = plan(Moment(storage, time, epoch, own, closed, budget))
            budget.take(POINT * len(vector))
            kept += POINT * len(vector)
            for labels, value in vector:
                runs = runs_by_series.get(labels)
                if runs is None:
                    runs_by_series[labels] = ([time], [value], [1])
                else:
                    _append(runs, time, value)
        return [(labels, Window(*runs)) for labels, runs in runs_by_series.items()]

    return Range(samples, length, offset)


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
