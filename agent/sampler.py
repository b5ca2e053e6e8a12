"""Reads this machine's metrics each second for one expression, and remembers as much as the expression looks back."""

import time
from collections.abc import Callable, Iterator, Sequence

from agent import rounds
from agent.rounds import Rounds
from agent.rules.expressions import Expression
from agent.rules.history import History
from agent.rules.labels import Labels, of_series
from agent.rules.values import Moment
from collectors.sample import Family

SECOND = 1_000
"""Milliseconds from one tick to the next."""


def since_boot() -> int:
    """Milliseconds on a clock that never goes back."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def epoch() -> int:
    """Milliseconds to add to a time since boot to have Unix time."""
    return time.time_ns() // 1_000_000 - since_boot()


def ticks(
    clock: Callable[[], int] = since_boot, sleep: Callable[[float], None] = time.sleep
) -> Iterator[int]:
    """The time now, and again each second; a tick for which it is too late is left out.

    The times are a second apart exactly, so that as many samples lie in a range as belong there.
    """
    begin, number = clock(), 0
    while True:
        yield begin + number * SECOND
        passed = clock() - begin
        number = max(number + 1, -(-passed // SECOND))
        sleep((number * SECOND - passed) / 1000)


class Sampler:
    """What an expression needs of this machine, tick by tick; only collectors that serve it are run."""

    def __init__(self, expression: Expression, source: Rounds) -> None:
        self._source = source
        self._history = History(expression.needs)
        self._names = _serving({need.selector.metric for need in expression.needs}, source)
        self.failed: frozenset[str] = frozenset()
        """Collectors that could not read their source at the last tick."""

    def take(self, now: int) -> Moment:
        """Read at a tick, which is now, or was a moment ago; what was read is in the moment's storage."""
        found = self._source.run(self._names)
        self.failed = found.failed
        self._history.begin(now)
        for family in found.families:
            self._history.add_family(family.samples)
        self._history.settle()
        self._history.end()
        return Moment(self._history, now, epoch())

    def everything(self) -> Sequence[Labels]:
        """All series that there are at this moment."""
        return all_series(self._source.run().families)


def all_series(families: Sequence[Family]) -> list[Labels]:
    """The label sets of all samples."""
    return [of_series(one.name, one.labels) for family in families for one in family.samples]


def _serving(metrics: set[str], source: Rounds) -> frozenset[str] | None:
    """The collectors to run; None for all, where a selector names no metric, or one that tells of the collectors."""
    if "" in metrics or any(rounds.METRICS.find(name) for name in metrics):
        return None
    return source.serving(metrics)
