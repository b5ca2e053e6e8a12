"""Aggregation operators: one result per group of elements, or selected elements of each group."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agent.rules.promql.labels import EMPTY, NAME, Labels, drop, keep, replace
from agent.rules.promql.memo import LabelSets, Picker, columns, latest, picker
from agent.rules.promql.operators.reductions import REDUCTIONS, Reduction, largest, quantile
from agent.rules.promql.syntax.printer import positional
from agent.rules.promql.values import EvaluationError, Vector

Parameter = float | str | None
Aggregator = Callable[[Vector, Parameter], Vector]


@dataclass(frozen=True, slots=True)
class Grouping:
    """How elements are grouped: `by` the named labels, or by all except these and the metric's name."""

    by: bool = True
    names: frozenset[str] = frozenset()

    def __call__(self, labels: Labels) -> Labels:
        """Return the labels of the element's group."""
        if not self.by:
            return drop(labels, self.names)
        return keep(labels, self.names) if self.names else EMPTY


def aggregator(op: str, grouping: Grouping) -> Aggregator:
    """Return the aggregation of that name, a function of a vector and the parameter (None without one).

    It raises EvaluationError for a k that is not a 64-bit integer.
    """
    if op in REDUCTIONS:
        return _reduced(REDUCTIONS[op], grouping)
    return _WITH_PARAMETER[op](grouping)


def _groups(grouping: Grouping, sets: LabelSets) -> list[tuple[Labels, Picker]]:
    """Return each group's labels and a picker of its elements."""
    members = _members(grouping, sets, range(len(sets)))
    return [(labels, picker(indices)) for labels, indices in members.items()]


def _members(
    grouping: Grouping, sets: LabelSets, indices: Iterable[int]
) -> Mapping[Labels, list[int]]:
    members: dict[Labels, list[int]] = {}
    for index in indices:
        members.setdefault(grouping(sets[index]), []).append(index)
    return members


def _reduced(reduction: Reduction, grouping: Grouping) -> Aggregator:
    groups = latest(partial(_groups, grouping))

    def aggregate(vector: Vector, _: Parameter) -> Vector:
        sets, values = columns(vector)
        return [(labels, reduction(pick(values))) for labels, pick in groups(sets)]

    return aggregate


def _quantiles(grouping: Grouping) -> Aggregator:
    groups = latest(partial(_groups, grouping))

    def aggregate(vector: Vector, parameter: Parameter) -> Vector:
        rank = _number(parameter)
        sets, values = columns(vector)
        return [(labels, quantile(rank, pick(values))) for labels, pick in groups(sets)]

    return aggregate


def _top(grouping: Grouping) -> Aggregator:
    return _ends(grouping, lambda values: values)


def _bottom(grouping: Grouping) -> Aggregator:
    return _ends(grouping, lambda values: [-value for value in values])


def _ends(grouping: Grouping, key: Callable[[Sequence[float]], Sequence[float]]) -> Aggregator:
    """Return the aggregation that selects the k elements of each group with the largest key, with their labels."""
    groups = latest(partial(_ordered_groups, grouping))

    def aggregate(vector: Vector, parameter: Parameter) -> Vector:
        number = _number(parameter)
        if number < 1:
            return []
        count = _integer(number)
        sets, values = columns(vector)
        return [
            (members[index], picked[index])
            for members, pick in groups(sets)
            for picked in [pick(values)]
            for index in largest(count, key(picked))
        ]

    return aggregate


def _ordered_groups(grouping: Grouping, sets: LabelSets) -> list[tuple[LabelSets, Picker]]:
    """Return each group's elements ordered by labels, so that ties are resolved the same way after a restart."""
    ordered = sorted(range(len(sets)), key=sets.__getitem__)
    members = _members(grouping, sets, ordered).values()
    return [(tuple([sets[index] for index in indices]), picker(indices)) for indices in members]


def _count_values(grouping: Grouping) -> Aggregator:
    """Return count_values: the number of elements with each value, which becomes a label."""

    def aggregate(vector: Vector, parameter: Parameter) -> Vector:
        name = _label_name(parameter)
        indices = (_with_value(grouping, name, labels, value) for labels, value in vector)
        return [(labels, float(count)) for labels, count in Counter(indices).items()]

    return aggregate


def _with_value(grouping: Grouping, name: str, labels: Labels, value: float) -> Labels:
    group = grouping(labels)
    if not grouping.by and (name == NAME or name in grouping.names):
        return group  # the label is set before it is dropped
    return replace(group, {name: positional(value)})


_WITH_PARAMETER: Mapping[str, Callable[[Grouping], Aggregator]] = {
    "quantile": _quantiles,
    "topk": _top,
    "bottomk": _bottom,
    "count_values": _count_values,
}

SUPPORTED = frozenset({*REDUCTIONS, *_WITH_PARAMETER})
"""Names of all aggregations."""

_LARGEST = 2.0**63 - 1024  # double that fits into 64 bits


def _number(parameter: Parameter) -> float:
    assert isinstance(parameter, int | float), "the parser checks types"
    return parameter


def _integer(number: float) -> int:
    if not number <= _LARGEST:
        raise EvaluationError(f"Scalar value {number:g} overflows int64")
    return int(number)


def _label_name(parameter: Parameter) -> str:
    assert isinstance(parameter, str), "the parser checks types"
    return parameter
