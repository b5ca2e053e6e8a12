"""Set operators `and`, `or`, `unless`: match elements by labels; values and label sets are unchanged."""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from operator import contains, not_

from agent.rules.promql.labels import Labels
from agent.rules.promql.memo import LabelSets, latest
from agent.rules.promql.operators.vector_matching import Matching
from agent.rules.promql.values import Vector

Sides = Callable[[Vector, Vector], Vector]


def set_operator(op: str, matching: Matching) -> Sides:
    """Return the set operator of that text, a function of a left and a right vector."""
    return SET_OPERATORS[op](matching)


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
