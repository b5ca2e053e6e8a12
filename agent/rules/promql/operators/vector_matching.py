"""Vector matching: pairs of elements and the labels of results for on, ignoring, group_left, group_right."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.rules.promql.labels import Labels, drop, keep, replace, value, without_name
from agent.rules.promql.memo import LabelSets, Picker, all_distinct, must_be_distinct, picker
from agent.rules.promql.syntax.printer import series
from agent.rules.promql.values import EvaluationError

Card = Literal["one-to-one", "many-to-one", "one-to-many", "many-to-many"]


@dataclass(frozen=True, slots=True)
class Matching:
    """The matching clause of a binary operator."""

    on: bool = False
    """Whether `names` are the labels to match on, or (ignoring) those to ignore."""
    names: frozenset[str] = frozenset()
    card: Card = "one-to-one"
    """many-to-one is group_left, one-to-many group_right; set operators are many-to-many and ignore it."""
    include: tuple[str, ...] = ()
    """Labels that the result takes from the "one" side."""

    def signature(self, labels: Labels) -> Labels:
        """Return the labels that must be equal for two elements to match."""
        return keep(labels, self.names) if self.on else drop(labels, self.names)


Naming = Callable[[Matching, Labels, Labels], Labels]
"""Returns the result's labels, given those of the "many" and of the "one" side."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The matches of two vectors as columns of equal length."""

    results: Sequence[Labels]
    """The labels of each result."""
    lefts: Picker
    """Picks the operands out of the left vector's values."""
    rights: Picker
    signatures: Sequence[Labels] | None
    """The signature of each pair; None if no two results have the same labels."""


def pair(matching: Matching, naming: Naming, lefts: LabelSets, rights: LabelSets) -> Pairs:
    """Return the matches of two vectors. Raises EvaluationError if the "one" side has several elements for a signature."""
    swapped = matching.card == "one-to-many"
    many, ones = (rights, lefts) if swapped else (lefts, rights)
    indices = _indices(matching, ones, "left" if swapped else "right")
    results, signatures, many_at, one_at = [], [], [], []
    for index, labels in enumerate(many):
        signature = matching.signature(labels)
        position = indices.get(signature)
        if position is not None:
            results.append(naming(matching, labels, ones[position]))
            signatures.append(signature)
            many_at.append(index)
            one_at.append(position)
    left_at, right_at = (one_at, many_at) if swapped else (many_at, one_at)
    distinct = all_distinct(results) and (matching.card != "one-to-one" or all_distinct(signatures))
    return Pairs(results, picker(left_at), picker(right_at), None if distinct else signatures)


def _indices(matching: Matching, ones: LabelSets, side: str) -> Mapping[Labels, int]:
    indices: dict[Labels, int] = {}
    for index, labels in enumerate(ones):
        signature = matching.signature(labels)
        if signature in indices:
            raise EvaluationError(
                f"found duplicate series for the match group {series(signature)} on the {side} hand-side of the operation: "
                f"[{series(labels)}, {series(ones[indices[signature]])}]; "
                "many-to-many matching not allowed: matching labels must be unique on one side"
            )
        indices[signature] = index
    return indices


def must_match_once(
    matching: Matching, signatures: Sequence[Labels], results: Sequence[Labels]
) -> None:
    """Raise EvaluationError if several pairs have the same result labels."""
    if matching.card == "one-to-one":
        if not all_distinct(signatures):
            raise EvaluationError(
                "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
            )
    elif len(set(zip(signatures, results, strict=True))) < len(results):
        raise EvaluationError(
            "multiple matches for labels: grouping labels must ensure unique matches"
        )
    must_be_distinct(results)


def named(matching: Matching, many: Labels, one: Labels) -> Labels:
    """Return the result's labels with the metric's name."""
    return _included(matching, _reduced(matching, many), one)


def renamed(matching: Matching, many: Labels, one: Labels) -> Labels:
    """Return the result's labels without the metric's name, unless group_left(__name__) includes it."""
    return _included(matching, without_name(_reduced(matching, many)), one)


def unnamed(matching: Matching, many: Labels, one: Labels) -> Labels:
    """Return the result's labels without any name, as with `bool`."""
    return without_name(named(matching, many, one))


def _reduced(matching: Matching, many: Labels) -> Labels:
    if matching.card != "one-to-one":
        return many
    if matching.on:
        return keep(many, matching.names)
    return tuple(label for label in many if label[0] not in matching.names)


def _included(matching: Matching, many: Labels, one: Labels) -> Labels:
    if not matching.include:
        return many
    return replace(many, {name: value(one, name) for name in matching.include})
