"""The interface of what takes exceptions of the handling of one object: `isolation.Part`, or nothing.

Pure modules are given one as an argument.
"""

from collections.abc import Callable, Generator, Hashable
from typing import Protocol, TypeVar

T = TypeVar("T")
Y = TypeVar("Y")


class Guard(Protocol):
    """Takes what the handling of an object raises, as `isolation.Part`."""

    def run(self, key: Hashable, handle: Callable[[], T], otherwise: T) -> T:
        """Return what `handle` returns for an object; `otherwise` if it raises."""
        ...

    def attempt(self, key: Hashable, handle: Callable[[], T], otherwise: T) -> T:
        """Return `otherwise`, too, while the object is left alone after a failure."""
        ...

    def steps(self, key: Hashable, steps: Generator[Y, None, T]) -> Generator[Y, None, T | None]:
        """Yield from steps and return their result; they end at what they raise, with None."""
        ...

    def rest(self, key: Hashable) -> float:
        """Return the seconds for which an object is still left alone; 0 if it may be handled."""
        ...

    def succeeded(self, key: Hashable) -> None:
        """An object was handled."""
        ...

    def failed(self, key: Hashable) -> float:
        """Note the exception that is being handled; return the seconds for which the object is left alone."""
        ...


class Unguarded:
    """Raises what the handling of an object raises, for tests of one part."""

    def run(self, _key: Hashable, handle: Callable[[], T], _otherwise: T) -> T:
        """Return what `handle` returns."""
        return handle()

    attempt = run

    def steps(self, _key: Hashable, steps: Generator[Y, None, T]) -> Generator[Y, None, T | None]:
        """Yield from the steps and return their result."""
        return (yield from steps)

    def rest(self, _key: Hashable) -> float:
        """Return 0: nothing is left alone."""
        return 0.0

    failed = rest

    def succeeded(self, _key: Hashable) -> None:
        """Do nothing."""


UNGUARDED = Unguarded()
