"""Work in small steps, between which the event loop serves others."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""A function that yields between two pieces of its work, and returns a T."""


def finished(steps: Steps[T]) -> T:
    """What the steps return, after all of them at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
