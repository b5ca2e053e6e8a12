"""Leaves out the parts of a source that cannot be read: one odd line, device or query costs itself, not its collector.

A collector reads each part under the guard: `readable` for lines or devices, `attempt` for one of several files, or `skip` in an
`except`. A source of which nothing can be read is an error (`some`). The runner counts and logs what was left out (`begin`), and
reports its metrics as unread.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, ParamSpec, TypeVar

from collectors.interface.sample import CollectorError, SourceAbsentError

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")

UNREADABLE = (CollectorError, ValueError, OverflowError)
"""What a parser raises for a part that it cannot read; OverflowError: of a number that is too large."""


class Skipped(NamedTuple):
    """A part of a source that was left out."""

    reason: str
    metrics: frozenset[str]
    """The metrics that may lack a sample; empty: any of the collector's."""


@dataclass(slots=True)
class _Notes:
    """What this thread left out."""

    skipped: list[Skipped] | None = None
    count: int = 0
    reason: str = ""


_NOTES: ContextVar[_Notes | None] = ContextVar("notes", default=None)


def _notes() -> _Notes:
    notes = _NOTES.get()
    if notes is None:
        _NOTES.set(notes := _Notes())
    return notes


def begin() -> list[Skipped]:
    """Return a new list of what this thread leaves out from now on, until the next call."""
    skipped: list[Skipped] = []
    _notes().skipped = skipped
    return skipped


def skip(reason: Exception | str, *metrics: str) -> None:
    """Note that a part was left out. `metrics`: those that may lack a sample; none: any of the collector's."""
    notes = _notes()
    notes.count, notes.reason = notes.count + 1, str(reason)
    if notes.skipped is not None:
        notes.skipped.append(Skipped(str(reason), frozenset(metrics)))


def skipped() -> int:
    """Return how many parts this thread has left out. A result is worth caching if the number has not grown."""
    return _notes().count


def some(parse: Callable[P, Iterator[A]]) -> Callable[P, Iterator[A]]:
    """Return a generator function that raises CollectorError if `parse` yields nothing, because all was left out."""

    @functools.wraps(parse)
    def parsed(*args: P.args, **kwargs: P.kwargs) -> Iterator[A]:
        notes = _notes()
        before = notes.count
        parts = parse(*args, **kwargs)
        for part in parts:
            yield part
            yield from parts
            return
        if notes.count > before:
            raise CollectorError(notes.reason)

    return parsed


def attempt(parts: Iterable[A], *metrics: str) -> Iterator[A]:
    """Yield the parts of one of several files or devices; a CollectorError ends them, and is noted."""
    try:
        yield from parts
    except SourceAbsentError:
        raise
    except CollectorError as error:
        skip(error, *metrics)


def readable(parts: Iterable[A], read: Callable[[A], B], *metrics: str) -> list[B]:
    """Return what `read` returns for each part, without those that cannot be read, which are left out.

    Raises CollectorError if there are parts and none can be read.
    """
    found: list[B] = []
    failed: list[Exception] = []
    for part in parts:
        try:
            found.append(read(part))
        except SourceAbsentError:
            raise
        except UNREADABLE as error:
            failed.append(error)
    if failed and not found:
        raise CollectorError(str(failed[0])) from failed[0]
    for reason in failed:
        skip(reason, *metrics)
    return found
