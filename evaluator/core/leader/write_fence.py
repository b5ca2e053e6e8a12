"""Fences writes to the cluster by leadership: every write except the Lease's runs in `WriteFence.write()`
(`Kube.fence`).

The leader may write until its lease ends; without leader election, always. The permission ends by the clock, not by a
message: a process that was suspended for a minute must not complete stale writes.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable

from evaluator.core.kube.transport import KubeError
from evaluator.core.signals import LeadershipGained, Publish, unheard

_NEVER, _ALWAYS = -math.inf, math.inf
_CHECK = 0.25
"""Seconds between two checks of the clock while a write is in flight. Event loop timers stop while the machine is suspended,
so a timer for the end itself would be late. After a suspend, writes are cancelled at most this much later, which is less
than the time between the end of the permission and the end of the lease."""


def clock() -> float:
    """Seconds on a clock that runs while the machine is suspended, or a monotonic clock where there is none."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class NotLeaderError(KubeError):
    """A write was rejected or cancelled because this replica is not the leader."""

    def __init__(self) -> None:
        super().__init__(0, "not sent: this replica is not the leader")


class WriteFence:
    """Permits writes while this replica leads; publishes that leadership was gained, not that it was lost."""

    def __init__(self, *, publish: Publish = unheard, clock: Callable[[], float] = clock) -> None:
        self._publish = publish
        self._clock = clock
        self._until = _NEVER
        self._finishing = False
        self._writes: set[asyncio.Timeout] = set()
        self._checking: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def is_leader(self) -> bool:
        """Whether a write may start now."""
        return not self._finishing and self._clock() < self._until

    def extend(self, until: float = _ALWAYS) -> None:
        """Permit writes until this time on the fence's clock, forever by default. Writes in flight may take as long."""
        gained = not self._clock() < self._until
        self._until = until
        if gained:
            self._publish(LeadershipGained())

    def end(self) -> None:
        """Leadership lost: reject new writes and cancel those in flight."""
        self._until = _NEVER
        self._check()

    async def finish(self, patience: float) -> None:
        """Reject new writes, wait up to `patience` seconds for those in flight, then cancel them."""
        self._finishing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._idle.wait()
        self.end()

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[None]:
        """Context of one write. Raises NotLeaderError if this replica does not lead, or loses leadership meanwhile."""
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
        """Cancel writes in flight if the permission has ended; otherwise schedule the next check."""
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
