"""What follows from the label sets of a vector alone is worked out once, for as long as the same series come.

From one evaluation to the next the series hardly change, only their values do. Which of them belong together is the dear
part of an operator; with the answer at hand the rest is picking values out of a column.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import ParamSpec, Protocol, TypeVar

from agent.rules.promql.labels import Labels, without_name
from agent.rules.promql.values import EvaluationError, Vector

LabelSets = tuple[Labels, ...]
"""The label sets of a vector, in its order."""

Item = TypeVar("Item")
Question = ParamSpec("Question")
Answer = TypeVar("Answer")


def latest(work: Callable[Question, Answer]) -> Callable[Question, Answer]:
    """A pure function that remembers its latest answer.

    Comparing costs next to nothing, as label sets that are the same object are not looked into; functools.lru_cache would
    have to hash them all. Question and answer are kept as one object, so threads cannot mix them up.
    """
    known: tuple[object, Answer] | None = None

    def ask(*args: Question.args, **kwargs: Question.kwargs) -> Answer:
        nonlocal known
        question = (args, kwargs)
        remembered = known
        if remembered is not None and remembered[0] == question:
            return remembered[1]
        answer = work(*args, **kwargs)
        known = (question, answer)
        return answer

    return ask


def columns(vector: Vector) -> tuple[LabelSets, tuple[float, ...]]:
    """The label sets and the values of a vector, each in its order."""
    return tuple([labels for labels, _ in vector]), tuple([value for _, value in vector])


class Picker(Protocol):
    """Picks some entries out of a column."""

    def __call__(self, column: Sequence[Item], /) -> Sequence[Item]:
        """The entries, in the picker's order."""
        ...


def picker(indices: Sequence[int]) -> Picker:
    """What picks the entries at these places, in this order."""
    if not indices:
        return itemgetter(slice(0, 0))
    first, after = indices[0], indices[-1] + 1
    if list(indices) == list(range(first, after)):
        return itemgetter(slice(first, after))
    return itemgetter(*indices)  # at least two, as one alone is a range: a tuple


def all_distinct(sets: Sequence[Labels]) -> bool:
    """Whether no label set comes twice."""
    return len(set(sets)) == len(sets)


def must_be_distinct(sets: Sequence[Labels]) -> None:
    """Raise EvaluationError where a label set comes twice, as it may where names or labels were dropped."""
    if not all_distinct(sets):
        raise EvaluationError("vector cannot contain metrics with the same labelset")


def nameless(sets: LabelSets) -> LabelSets:
    """All without the metric's name, as most functions and operators answer; EvaluationError where two become one."""
    results = tuple(map(without_name, sets))
    must_be_distinct(results)
    return results
