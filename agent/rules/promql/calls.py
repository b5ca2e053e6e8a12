"""Compiles function calls: from the function's name and compiled arguments to a compiled part."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import neg
from typing import TypeVar

from agent.rules.promql import selectors
from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.functions import POINTWISE, RANGES, RangeFunction
from agent.rules.promql.functions.histograms import histogram_quantile
from agent.rules.promql.functions.labels import Relabelling, joining, replacing
from agent.rules.promql.labels import EMPTY, Labels
from agent.rules.promql.memo import columns, latest, nameless
from agent.rules.promql.plan import Instant, Part, Range, Scalar, Text
from agent.rules.promql.regex import compiled
from agent.rules.promql.syntax.parser import asserted, label_names
from agent.rules.promql.values import Moment, Vector

Arguments = Sequence[Part]
Kind = TypeVar("Kind", Scalar, Text, Instant, Range)
VectorPlan = Callable[[Moment], Vector]


def call(name: str, arguments: Arguments) -> Part:
    """Return the compiled call of a supported function."""
    if name in RANGES:
        return _over_range(RANGES[name], arguments)
    if name in POINTWISE:
        return _pointwise(POINTWISE[name], arguments)
    return _OTHERS[name](arguments)


def negated(operand: Instant) -> Instant:
    """Return the unary minus of a vector."""
    return _pointwise(neg, [operand])


def _over_range(function: RangeFunction, arguments: Arguments) -> Instant:
    operand = _only(Range, arguments)
    numbers = [part.plan for part in arguments if isinstance(part, Scalar)]
    if function.wants_time:
        numbers.insert(0, lambda moment: moment.time)
    compute, samples = function.compute, operand.samples
    length, offset = operand.length, operand.offset

    def plan(moment: Moment) -> Vector:
        end = moment.time - offset
        start = end - length
        given = [number(moment) for number in numbers]
        results: Vector = []
        check = moment.budget.check
        for labels, window in samples(moment, moment.oldest(start), end):
            check()
            value = compute(window, start, end, *given)
            if value is not None:
                results.append((labels, value))
        return results

    return Instant(plan if function.keeps_name else _unnamed(plan))


def _pointwise(compute: Callable[..., float | None], arguments: Arguments) -> Instant:
    vector = _only(Instant, arguments).plan
    numbers = [part.plan for part in arguments if isinstance(part, Scalar)]

    def plan(moment: Moment) -> Vector:
        given = [number(moment) for number in numbers]
        return [
            (labels, result)
            for labels, value in vector(moment)
            if (result := compute(value, *given)) is not None
        ]

    return Instant(_unnamed(plan))


def _unnamed(plan: VectorPlan) -> VectorPlan:
    """Return the plan without the metric's name. New label sets are computed only when the series change."""
    names = latest(nameless)

    def unnamed(moment: Moment) -> Vector:
        sets, values = columns(plan(moment))
        return list(zip(names(sets), values, strict=True))

    return unnamed


def _time(_: Arguments) -> Scalar:
    return Scalar(_seconds)


def _seconds(moment: Moment) -> float:
    return (moment.time + moment.epoch) / 1000


def _timestamp(arguments: Arguments) -> Instant:
    operand = _only(Instant, arguments)
    if operand.selection is not None:
        return Instant(_unnamed(selectors.timestamps(operand.selection)))
    vector = operand.plan

    def now(moment: Moment) -> Vector:
        time = _seconds(moment)
        return [(labels, time) for labels, _ in vector(moment)]

    return Instant(_unnamed(now))


def _scalar(arguments: Arguments) -> Scalar:
    vector = _only(Instant, arguments).plan

    def plan(moment: Moment) -> float:
        samples = vector(moment)
        return samples[0][1] if len(samples) == 1 else math.nan

    return Scalar(plan)


def _vector(arguments: Arguments) -> Instant:
    number = _only(Scalar, arguments).plan
    return Instant(lambda moment: [(EMPTY, number(moment))])


def _absent(arguments: Arguments) -> Instant:
    operand = _only(Instant, arguments)
    vector = operand.plan
    selection = operand.selection
    missing = [(EMPTY if selection is None else asserted(selection.selector), 1.0)]
    return Instant(lambda moment: [] if vector(moment) else list(missing))


def _absent_over_time(arguments: Arguments) -> Instant:
    operand = _only(Range, arguments)
    samples, length, offset = operand.samples, operand.length, operand.offset
    missing = [(EMPTY if operand.selector is None else asserted(operand.selector), 1.0)]

    def plan(moment: Moment) -> Vector:
        end = moment.time - offset
        oldest = moment.oldest(end - length)
        return [] if any(samples(moment, oldest, end)) else list(missing)

    return Instant(plan)


def _label_replace(arguments: Arguments) -> Instant:
    vector = _only(Instant, arguments).plan
    dst, replacement, src, pattern = _texts(arguments)
    label_names([dst])
    return _relabelled(vector, replacing(dst, replacement, src, compiled(pattern)))


def _label_join(arguments: Arguments) -> Instant:
    vector = _only(Instant, arguments).plan
    dst, separator, *sources = _texts(arguments)
    label_names([dst, *sources])
    return _relabelled(vector, joining(dst, separator, sources))


def _relabelled(vector: VectorPlan, relabel: Callable[[Labels], Labels]) -> Instant:
    relabelling = Relabelling(relabel)

    def plan(moment: Moment) -> Vector:
        sets, values = columns(vector(moment))
        return list(zip(relabelling(sets, moment.budget), values, strict=True))

    return Instant(plan)


def _histogram_quantile(arguments: Arguments) -> Instant:
    share, vector = _only(Scalar, arguments).plan, _only(Instant, arguments).plan
    return Instant(lambda moment: histogram_quantile(share(moment), vector(moment)))


_OTHERS: Mapping[str, Callable[[Arguments], Part]] = {
    "absent": _absent,
    "absent_over_time": _absent_over_time,
    "histogram_quantile": _histogram_quantile,
    "label_join": _label_join,
    "label_replace": _label_replace,
    "scalar": _scalar,
    "time": _time,
    "timestamp": _timestamp,
    "vector": _vector,
}

SUPPORTED = frozenset({*RANGES, *POINTWISE, *_OTHERS})
"""Names of all supported functions."""


def _only(kind: type[Kind], arguments: Arguments) -> Kind:
    """Return the argument of that kind. The parser has checked the types, so there is exactly one."""
    for argument in arguments:
        if isinstance(argument, kind):
            return argument
    raise ExpressionError(f"expected an argument that is a {kind.__name__.lower()}", "type")


def _texts(arguments: Arguments) -> Iterator[str]:
    return (argument.text for argument in arguments if isinstance(argument, Text))
