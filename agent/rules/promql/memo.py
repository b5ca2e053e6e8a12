"""Caches results that depend on label sets only, while the series of a vector stay the same.

Between evaluations values change, series rarely do. Matching and grouping of label sets is the expensive part of an
operator; with that cached, an evaluation only picks values out of a column.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import itemgetter
from typing import ParamSpec, Protocol, TypeVar

from agent.rules.promql.labels import Labels, without_name
from agent.rules.promql.values import EvaluationError, Vector

LabelSets = tuple[Labels, ...]
"""The label sets of a vector, in its order."""

Item = TypeVar("Item")
Question = ParamSpec("Question")
Answer = TypeVar("Answer")

_created: ContextVar[list[Callable[[], None]] | None] = ContextVar("caches", default=None)


@contextmanager
def created() -> Iterator[list[Callable[[], None]]]:
    """Return a list to which each cache created in this context adds the function that empties it."""
    found: list[Callable[[], None]] = []
    token = _created.set(found)
    try:
        yield found
    finally:
        _created.reset(token)


def latest(work: Callable[Question, Answer]) -> Callable[Question, Answer]:
    """Return a pure function that caches its latest result.

    Comparison is cheap, because identical label sets are not compared in depth; functools.lru_cache would hash all of them.
    Arguments and result are stored as one object, so threads cannot mix them up.
    """
    known: tuple[object, Answer] | None = None

    def cached(*args: Question.args, **kwargs: Question.kwargs) -> Answer:
        nonlocal known
        question = (args, kwargs)
        remembered = known
        if remembered is not None and remembered[0] == question:
            return remembered[1]
        answer = work(*args, **kwargs)
        known = (question, answer)
        return answer

    def clear() -> None:
        nonlocal known
        known = None

    if (caches := _created.get()) is not None:
        caches.append(clear)
    return cached


def columns(vector: Vector) -> tuple[LabelSets, tuple[float, ...]]:
    """Return the label sets and the values of a vector as two columns."""
    return tuple([labels for labels, _ in vector]), tuple([value for _, value in vector])


class Picker(Protocol):
    """Picks entries out of a column."""

    def __call__(self, column: Sequence[Item], /) -> Sequence[Item]:
        """Return the entries in the picker's order."""
        ...


def picker(indices: Sequence[int]) -> Picker:
    """Return a picker of the entries at these indices, in this order."""
    if not indices:
        return itemgetter(slice(0, 0))
    first, after = indices[0], indices[-1] + 1
    if list(indices) == list(range(first, after)):
        return itemgetter(slice(first, after))
    return itemgetter(*indices)  # at least two: itemgetter returns a tuple


def all_distinct(sets: Sequence[Labels]) -> bool:
    """Return whether all label sets differ."""
    return len(set(sets)) == len(sets)


def must_be_distinct(sets: Sequence[Labels]) -> None:
    """Raise EvaluationError if a label set occurs twice, which can happen after names or labels were dropped."""
    if not all_distinct(sets):
        raise EvaluationError("vector cannot contain metrics with the same labelset")


def nameless(sets: LabelSets) -> LabelSets:
    """Return all without the metric's name. Raises EvaluationError if two become equal."""
    results = tuple(map(without_name, sets))
    must_be_distinct(results)
    return results
