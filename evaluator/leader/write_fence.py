"""The right to write to the cluster, for a time: entered around every write, so that no writer can forget to ask.

The elected replica has it until its lease ends; a replica that takes part in no election always. It ends by the clock, not
by a message: a process that was stopped for a minute and goes on must not write what it had in mind before.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable

from evaluator.kubeapi.transport import KubeError

_NEVER, _ALWAYS = -math.inf, math.inf
_CHECK = 0.25
"""Seconds between two looks at the clock while a write is under way. The loop's timers stand still while the machine is
suspended, so none of them may be set to the end of the mandate itself. After a suspend a write is cancelled this much
later at most, which is less than what lies between the end of the mandate and that of the lease."""


def clock() -> float:
    """Seconds that go on while the machine sleeps, as another replica's do; where there is no such clock, monotonic ones."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class NotLeaderError(KubeError):
    """A write that was not sent, or given up under way, because this replica may not write any more."""

    def __init__(self) -> None:
        super().__init__(0, "not sent: another replica is the one that writes")


class WriteFence:
    """Whether this replica may write now. `listeners` hear when it gets the right, not when it loses it."""

    def __init__(self, *, clock: Callable[[], float] = clock) -> None:
        self._clock = clock
        self._until = _NEVER
        self._finishing = False
        self._writes: set[asyncio.Timeout] = set()
        self._checking: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.listeners: list[Callable[[], None]] = []

    def is_leader(self) -> bool:
        """Whether a write may begin now."""
        return not self._finishing and self._clock() < self._until

    def extend(self, until: float = _ALWAYS) -> None:
        """It lasts until then, on our clock; without a time for ever. Writes under way may go on so long too."""
        gained = not self._clock() < self._until
        self._until = until
        if gained:
            for tell in self.listeners:
                tell()

    def end(self) -> None:
        """It is over: nothing begins any more, and what is under way is given up."""
        self._until = _NEVER
        self._check()

    async def finish(self, patience: float) -> None:
        """Let nothing begin any more, and what is under way end: for so many seconds, then it is given up."""
        self._finishing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._idle.wait()
        self.end()

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[None]:
        """Around one write. Raises NoMandateError if there is no right to it, or none any more before it has ended."""
        if not self.is_leader():
            raise NotLeaderError
        limit = asyncio.timeout(None)
        self._writes.add(limit)
        self._idle.clear()
        try:
            async with limit:
                self._check()
                yield
        except TimeoutError:
            raise NotLeaderError from None
        finally:
            self._writes.discard(limit)
            if not self._writes:
                self._idle.set()

    def _check(self) -> None:
        """Cancel the writes under way if the right to them is over; otherwise look again soon."""
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None
        if not self._writes:
            return
        loop, left = asyncio.get_running_loop(), self._until - self._clock()
        if left > 0:
            self._checking = loop.call_later(min(left, _CHECK), self._check)
            return
        for limit in self._writes:
            if not limit.expired():
                limit.reschedule(loop.time())
