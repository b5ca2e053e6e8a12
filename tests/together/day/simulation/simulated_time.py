"""Simulated time: stands still while there is work, and jumps to the next timer otherwise.

Import it before any module that reads a clock: it replaces `time` and the event loop's clock. Randomness is seeded too, so
that a seed is reproducible (with PYTHONHASHSEED set).
"""

import asyncio
import itertools
import random
import selectors
import time

_MOST_TURNS = 20_000


class Clock:
    """Clocks in seconds. `now` only advances; the wall clock can be set."""

    def __init__(self):
        self.now = 1_000.0
        self.wall_ahead = 1.8e9

    def monotonic(self):
        return self.now

    def wall(self):
        return self.now + self.wall_ahead

    def boot(self, _which):
        return self.now


class JumpingSelector(selectors.EpollSelector):
    """A selector that never waits: if no file is ready, time jumps to the timeout.

    A loop that polls without letting time pass would be a busy loop: that is an error here.
    """

    def __init__(self):
        super().__init__()
        self.haste = 0
        self.ready = ()

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("everybody waits for something that will never come")
        self.haste = 0 if timeout > 0 else self.haste + 1
        if self.haste > _MOST_TURNS:
            raise RuntimeError(f"{_MOST_TURNS} turns, no time has passed: {[*self.ready][:5]}")
        clock.now += max(0.0, timeout)
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """Runs at once instead of in a thread, since simulated time outruns threads."""

    def __init__(self):
        leaps = JumpingSelector()
        super().__init__(leaps)
        leaps.ready = self._ready

    def run_in_executor(self, _executor, func, *args):
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 (whoever waits is told)
            done.set_exception(error)
        return done


class SeededRandom(random.Random):
    """Unseeded generators get the next seed of a sequence."""

    _seeds = itertools.count(1)

    def __init__(self, seed=None):
        super().__init__(next(self._seeds) if seed is None else seed)


clock = Clock()
time.monotonic = clock.monotonic
time.thread_time = clock.monotonic
time.time = clock.wall
time.clock_gettime = clock.boot
random.Random = SeededRandom
