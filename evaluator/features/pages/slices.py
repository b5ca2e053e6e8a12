"""Work on a page in slices, so that kube-scheduler's requests are answered in between."""

from collections.abc import Iterator
from typing import TypeVar

from evaluator.core.model.steps import Steps
from plimsoll.http.pieces import unhurried

WAITING = 7
"""Clients that may wait while a page is built."""

T = TypeVar("T")


async def stepwise(steps: Steps[T]) -> T:
    """The result of a generator, yielding to the event loop between its steps."""
    done: list[T] = []

    def result() -> Iterator[None]:
        done.append((yield from steps))

    await unhurried(result())
    return done[0]
