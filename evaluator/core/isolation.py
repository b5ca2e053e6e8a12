"""Catches what the handling of one object raises, so that it fails that object and nothing else.

Loops, reactions to signals, writers and statuses handle objects through a `Part`. What one object raises is logged with its
traceback once, counted in `plimsoll_internal_errors_total`, and the object is left alone for a while; the others go on.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from prometheus_client import Counter

from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

T = TypeVar("T")
Y = TypeVar("Y")

_FIRST, _LONGEST = 1.0, 300.0
"""Seconds that an object is left alone after its first failure, and at most."""
_STUCK, _STUCK_FOR = 60.0, 300.0
"""Seconds in which every object of a part failed, after which the part is stuck; and for how long, until it may prove itself."""
_SEVERAL = 3
"""Objects that must have failed for a part to be stuck: one object is its own fault, not that of this replica."""
_MOST_FAILING, _MOST_TRACEBACKS = 10_000, 100
"""Failing objects that are remembered, and places of exceptions whose traceback was logged, of one part."""
_WHOLE = "the whole loop"
"""The key of a loop that ended by itself."""


class _Failing:
    """An object whose handling failed, and until when it is left alone (seconds, monotonic). `refused`: by another program."""

    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        self.until = 0.0
        self.refused = False


class Part:
    """One loop, writer or kind of reaction. `name` is its value of the label `part`."""

    def __init__(
        self,
        name: str,
        errors: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        stuck_after: float = _STUCK,
    ) -> None:
        """`errors` counts one error. `jitter` returns a float in [0, 1)."""
        self.name = name
        self._errors = errors
        self._clock = clock
        self._jitter = jitter
        self._stuck_after = stuck_after
        self._failing: dict[Hashable, _Failing] = {}
        self._since: float | None = None
        """When the first object failed since one last succeeded."""
        self._logged = set[tuple[type, str, int]]()
        self._lines = RateLimitedLogger(log, "error", rate=0.2, burst=10, clock=clock)

    @property
    def failing(self) -> int:
        """The number of objects whose last handling failed."""
        return len(self._failing)

    def is_resting(self, key: Hashable) -> bool:
        """Return whether an object is left alone now, as its handling failed a short time ago."""
        return bool(self._failing) and self.rest(key) > 0

    def rest(self, key: Hashable) -> float:
        """Return the seconds for which an object is still left alone; 0 if it may be handled."""
        failing = self._failing.get(key)
        return 0.0 if failing is None else max(0.0, failing.until - self._clock())

    def until_retry(self, due: float | None = None) -> float | None:
        """Return the seconds until an object that is left alone may be handled again, or until `due`; None for never."""
        now = self._clock()
        later = [one.until - now for one in self._failing.values() if one.until > now]
        return min(later if due is None else [*later, due], default=None)

    def succeeded(self, key: Hashable) -> None:
        """An object was handled."""
        if self._failing or self._since is not None:
            self._failing.pop(key, None)
            self._since = None

    def failed(self, key: Hashable) -> float:
        """Note the exception that is being handled; return the seconds for which the object is left alone."""
        self._errors()
        delay = self._leave_alone(key, refused=False)
        self._since = self._clock() if self._since is None else self._since
        self._log(key, delay)
        return delay

    def refused(self, key: Hashable, least: float = 0.0) -> float:
        """Leave an object alone that another program refused, for `least` seconds or more; return for how long. It is no error."""
        return self._leave_alone(key, refused=True, least=least)

    def _leave_alone(self, key: Hashable, *, refused: bool, least: float = 0.0) -> float:
        failing = self._failing.pop(key, None) or _Failing(
            Backoff(self._jitter, first=_FIRST, longest=_LONGEST)
        )
        delay = max(least, failing.backoff.next())
        failing.until, failing.refused = self._clock() + delay, refused
        self._failing[key] = failing
        if len(self._failing) > _MOST_FAILING:
            del self._failing[next(iter(self._failing))]
        return delay

    def _log(self, key: Hashable, delay: float) -> None:
        kind, error, trace = sys.exc_info()
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = (kind or Exception, trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace else None  # fmt: skip
        del trace
        new = place is not None and place not in self._logged
        if new and place is not None and len(self._logged) < _MOST_TRACEBACKS:
            self._logged.add(place)
            self._lines.log("internal error", part=self.name, about=str(key), again_in=round(delay, 1), exc_info=True)  # fmt: skip
        else:
            text = f"{kind.__name__ if kind else ''}: {error}"[:300]
            self._lines.log("internal error again", part=self.name, about=str(key), error=text, again_in=round(delay, 1))  # fmt: skip

    def run(self, key: Hashable, handle: Callable[[], T], otherwise: T) -> T:
        """Return what `handle` returns for an object; `otherwise` if it raises."""
        try:
            found = handle()
        except Exception:  # noqa: BLE001 (this is the one place that catches what nobody expected)
            self.failed(key)
            return otherwise
        self.succeeded(key)
        return found

    def attempt(self, key: Hashable, handle: Callable[[], T], otherwise: T) -> T:
        """Return what `handle` returns for an object; `otherwise` if it raises, and while the object is left alone."""
        return otherwise if self.is_resting(key) else self.run(key, handle, otherwise)

    @contextmanager
    def isolated(self, key: Hashable, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Handle an object within: an exception ends the block and is noted; those of `passing` are expected, and raised."""
        try:
            yield
        except passing:
            raise
        except Exception:  # noqa: BLE001
            self.failed(key)
        else:
            self.succeeded(key)

    def steps(self, key: Hashable, steps: Generator[Y, None, T]) -> Generator[Y, None, T | None]:
        """Yield from the steps of handling an object and return their result; they end at what they raise, with None."""
        while True:
            try:
                one = next(steps)
            except StopIteration as done:
                self.succeeded(key)
                found: T = done.value
                return found
            except Exception:  # noqa: BLE001
                self.failed(key)
                return None
            yield one

    @property
    def is_stuck(self) -> bool:
        """Whether every object failed for a minute, several of them, or the loop itself ended again and again."""
        if self._since is None or (passed := self._clock() - self._since) < self._stuck_after:
            return False
        if passed > self._stuck_after + _STUCK_FOR:
            self._since = (
                None  # a part that works only while this replica leads could not succeed otherwise
            )
            return False
        failed = sum(not one.refused for one in self._failing.values())
        return failed >= _SEVERAL or _WHOLE in self._failing


class Isolation:
    """The parts of an evaluator."""

    def __init__(self, errors: Counter, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`errors`: a counter with the label `part`."""
        self._errors = errors
        self._clock = clock
        self._parts: list[Part] = []

    def part(self, name: str, *, vital: bool = True) -> Part:
        """Return a new part; several may have one name. One that is not `vital` makes no replica unready, such as pages."""
        made = Part(name, self._errors.labels(name).inc, clock=self._clock)
        if vital:
            self._parts.append(made)
        return made

    def stuck(self) -> list[str]:
        """Return the parts in which everything fails, as reasons for which this replica is not ready."""
        names = dict.fromkeys(part.name for part in self._parts if part.is_stuck)
        return [f"{name}: everything fails; the log has the internal errors" for name in names]

    async def keep_running(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a loop until cancelled; start it again, with backoff, if it raises."""
        part = self.part(name)
        while True:
            try:
                return await loop()
            except Exception:  # noqa: BLE001
                delay = part.failed(_WHOLE)
            await asyncio.sleep(delay)


def uncounted(name: str) -> Part:
    """Return a part whose errors no registry exports."""
    return Part(name, lambda: None)
