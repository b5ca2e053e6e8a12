"""Binary operators between scalars and vectors.

Arithmetic drops the metric's name; a comparison without `bool` is a filter and keeps it. Set operators (`and`, `or`, `unless`) match elements by labels and keep them unchanged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress, repeat
from operator import contains, itemgetter, not_

from agent.rules.promql.labels import Labels
from agent.rules.promql.memo import LabelSets, columns, latest, nameless
from agent.rules.promql.operators.arithmetic import (
    ARITHMETIC,
    COMPARISONS,
    MIRRORED,
    Arithmetic,
    Comparison,
    elementwise,
)
from agent.rules.promql.operators.vector_matching import (
    Matching,
    Naming,
    Pairs,
    must_match_once,
    named,
    pair,
    renamed,
    unnamed,
)
from agent.rules.promql.values import Vector

Sides = Callable[[Vector, Vector], Vector]


def _and(matching: Matching) -> Sides:
    known = latest(_known)

    def both(lefts: Vector, rights: Vector) -> Vector:
        return list(compress(lefts, known(matching, _sets(lefts), _sets(rights))))

    return both


def _unless(matching: Matching) -> Sides:
    known = latest(_known)

    def others(lefts: Vector, rights: Vector) -> Vector:
        return list(compress(lefts, map(not_, known(matching, _sets(lefts), _sets(rights)))))

    return others


def _or(matching: Matching) -> Sides:
    unless = _unless(matching)

    def either(lefts: Vector, rights: Vector) -> Vector:
        return [*lefts, *unless(rights, lefts)]

    return either


def _sets(vector: Vector) -> LabelSets:
    return tuple([labels for labels, _ in vector])


def _known(matching: Matching, sets: LabelSets, others: LabelSets) -> Sequence[bool]:
    """Return for each element of `sets` whether one of the others matches it."""
    signatures: set[Labels] = set(map(matching.signature, others))
    return [contains(signatures, matching.signature(labels)) for labels in sets]


SET_OPERATORS: Mapping[str, Callable[[Matching], Sides]] = {
    "and": _and,
    "or": _or,
    "unless": _unless,
}
"""Set operators by their text."""


WithScalar = Callable[[Vector, float], Vector]
Elementwise = Callable[[Iterable[float], Iterable[float]], list[float]]

SUPPORTED = frozenset({*ARITHMETIC, *COMPARISONS, *SET_OPERATORS})
"""Texts of all operators."""


def scalars(op: str) -> Arithmetic:
    """Return an operator between two scalars; a comparison returns 1 or 0, since `bool` is required there."""
    if op in COMPARISONS:
        compare = COMPARISONS[op]
        return lambda left, right: float(compare(left, right))
    return ARITHMETIC[op]


def vector_with_scalar(op: str, scalar_first: bool, return_bool: bool) -> WithScalar:
    """Return an operator between a vector and a scalar; a comparison keeps the vector's value on either side."""
    if op in COMPARISONS:
        compare = COMPARISONS[MIRRORED[op] if scalar_first else op]
        return _as_number(compare) if return_bool else partial(_filtered, compare)
    return _computed(op, scalar_first)


def _filtered(compare: Comparison, vector: Vector, scalar: float) -> Vector:
    return list(compress(vector, map(compare, map(itemgetter(1), vector), repeat(scalar))))


def _as_number(compare: Comparison) -> WithScalar:
    results = latest(nameless)

    def judge(vector: Vector, scalar: float) -> Vector:
        sets, values = columns(vector)
        verdicts = map(float, map(compare, values, repeat(scalar)))
        return list(zip(results(sets), verdicts, strict=True))

    return judge


def _computed(op: str, scalar_first: bool) -> WithScalar:
    apply = elementwise(op)
    results = latest(nameless)

    def compute(vector: Vector, scalar: float) -> Vector:
        sets, values = columns(vector)
        operands = repeat(scalar)
        numbers = apply(operands, values) if scalar_first else apply(values, operands)
        return list(zip(results(sets), numbers, strict=True))

    return compute


def vectors(op: str, matching: Matching, return_bool: bool) -> Sides:
    """Return an operator between two vectors. It raises EvaluationError if elements do not match one to one, or as grouped."""
    if op in SET_OPERATORS:
        return SET_OPERATORS[op](matching)
    if op not in COMPARISONS:
        return _combined(elementwise(op), matching, renamed)
    if return_bool:
        return _combined(_verdicts(COMPARISONS[op]), matching, unnamed)
    return _selected(COMPARISONS[op], matching)


def _verdicts(compare: Comparison) -> Elementwise:
    return lambda lefts, rights: list(map(float, map(compare, lefts, rights)))


def _combined(apply: Elementwise, matching: Matching, naming: Naming) -> Sides:
    """Return an operator with a result for every matching pair."""
    pairs = latest(partial(_once, matching, naming))

    def combine(lefts: Vector, rights: Vector) -> Vector:
        if not lefts or not rights:
            return []
        left_sets, left_values = columns(lefts)
        right_sets, right_values = columns(rights)
        paired = pairs(left_sets, right_sets)
        values = apply(paired.lefts(left_values), paired.rights(right_values))
        return list(zip(paired.results, values, strict=True))

    return combine


def _once(matching: Matching, naming: Naming, lefts: LabelSets, rights: LabelSets) -> Pairs:
    paired = pair(matching, naming, lefts, rights)
    if paired.signatures is not None:
        must_match_once(matching, paired.signatures, paired.results)
    return paired


def _selected(compare: Comparison, matching: Matching) -> Sides:
    """Return a filter with the left value of the pairs for which the comparison holds."""
    pairs = latest(partial(_once, matching, named))

    def select(lefts: Vector, rights: Vector) -> Vector:
        if not lefts or not rights:
            return []
        left_sets, left_values = columns(lefts)
        right_sets, right_values = columns(rights)
        paired = pairs(left_sets, right_sets)
        values = paired.lefts(left_values)
        holds = list(map(compare, values, paired.rights(right_values)))
        return list(compress(zip(paired.results, values, strict=True), holds))

    return select
