"""Leader election by a Lease: all replicas answer the scheduler, one writes to the cluster."""

import asyncio
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol, assert_never

from evaluator.core.kube.transport import KubeError
from evaluator.core.leader import lease
from evaluator.core.leader.lease import Acquire, LeaseTimings, ObservedLease, Renew, StepDown, Wait
from evaluator.core.leader.write_fence import WriteFence, clock
from evaluator.core.signals import Acted, ActionKind, Publish, unheard
from plimsoll import logs, rfc3339

log = logs.get(__name__)

_PATIENCE = 3.0
"""Timeout in seconds for releasing the lease: a shutdown does not wait for an unreachable API server."""
_CONFLICT = 409
"""The status of a write when another replica has written the Lease since it was read, as at a start of several."""


class Leases(Protocol):
    """Reads and writes Leases. Both methods raise KubeError."""

    async def read_lease(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The lease; None if there is none."""
        ...

    async def write_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create it, or replace the one with the resourceVersion in it; 409 on a concurrent write."""
        ...


class Leader:
    """Acquires and renews the lease and opens the write fence meanwhile. `run()` until cancelled; `release()` at shutdown."""

    def __init__(
        self,
        leases: Leases,
        fence: WriteFence,
        timings: LeaseTimings,
        *,
        namespace: str,
        name: str,
        me: str = "",
        unfit: Callable[[], Sequence[str]] = tuple,
        publish: Publish = unheard,
        clock: Callable[[], float] = clock,
    ) -> None:
        """`unfit` returns why this replica must not lead; meanwhile it gives the lease up and acquires none."""
        self._leases = leases
        self._fence = fence
        self._timings = timings
        self._namespace = namespace
        self._name = name
        self._me = me or identity()
        self._unfit = unfit
        self._publish = publish
        self._clock = clock
        self._seen = ObservedLease()
        self._reason = ""
        self._turn = asyncio.Lock()

    @property
    def holds(self) -> bool:
        """Whether this replica holds the lease as far as it knows; `WriteFence` decides on writes."""
        return self._seen.renewed is not None

    @property
    def holder(self) -> str:
        """The replica that holds the lease, as it was last read; empty if none does."""
        return self._seen.holder

    async def run(self) -> None:
        """Acquire, renew, wait or step down, until cancelled."""
        while True:
            async with self._turn:
                delay = await self.try_acquire_or_renew()
            await asyncio.sleep(delay)

    async def try_acquire_or_renew(self) -> float:
        """Read the lease and act on it; returns the seconds until the next call."""
        begin = self._clock()
        try:
            async with asyncio.timeout(self._timings.renew_deadline / 2):
                found = await self._leases.read_lease(self._namespace, self._name)
                self._seen = self._seen.read(found, self._clock())
                if why := self._unfit():
                    return await self._give_up("; ".join(why))
                return await self._step()
        except KubeError as error:
            if error.status == _CONFLICT:
                log.debug("another replica was faster", lease=self._lease_name, error=str(error))
            else:
                self._log_failure(str(error))
        except TimeoutError:
            self._log_failure("no response in time")
        now = self._clock()
        if isinstance(step := lease.decide(self._seen, self._me, self._timings, now), StepDown):
            self._step_down(step.why)
        return max(
            0.0, min(self._timings.retry, begin + self._timings.retry - now, self._left(now))
        )

    async def release(self) -> None:
        """Finish writes in flight, reject new ones and release the lease, so that another replica can lead at once.

        `run()` renews the lease until then. Cancel it afterwards.
        """
        await self._fence.finish(_PATIENCE)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._turn.acquire()  # never released: run() must not acquire the lease again
                if self._seen.renewed is None or self._seen.lease is None:
                    return
                ours = self._seen.lease
                self._seen = self._seen.stepped_down()
                await self._write_released(ours)
            log.info("released the lease", lease=self._lease_name)
            self._changed(f"{self._me} released the lease")
        except (KubeError, TimeoutError) as error:
            why = str(error) or "no response in time"
            log.warning(
                "could not release the lease: it expires", lease=self._lease_name, error=why
            )

    async def _give_up(self, why: str) -> float:
        """Stop writing and release the lease, if it is held; returns the seconds until the next call. Raises KubeError."""
        if self._seen.renewed is not None and self._seen.lease is not None:
            ours = self._seen.lease
            self._step_down(why)
            await self._write_released(ours)
        return self._timings.retry

    async def _write_released(self, ours: lease.Object) -> None:
        """Release the lease as it was last read, or as it is now if others wrote to it while we hold it. Raises KubeError."""
        at = rfc3339.micros(time.time())
        try:
            await self._leases.write_lease(lease.released(ours, at=at))
        except KubeError as error:
            if error.status != _CONFLICT:
                raise
            now = await self._leases.read_lease(self._namespace, self._name)
            if now is not None and ObservedLease(now).holder == self._me:
                await self._leases.write_lease(lease.released(now, at=at))

    async def _step(self) -> float:
        timings, now = self._timings, self._clock()
        match lease.decide(self._seen, self._me, timings, now):
            case Acquire() | Renew():
                await self._write(began=now)
                return timings.retry
            case Wait(seconds):
                self._note_holder()
                return min(timings.retry, seconds)
            case StepDown(why):
                self._step_down(why)
                return 0.0
            case other:
                assert_never(other)

    async def _write(self, *, began: float) -> None:
        """Acquire or renew. Raises KubeError on a conflict or without a response; the state stays as it was."""
        body = lease.held(self._seen, self._me, self._timings, at=rfc3339.micros(time.time()))
        body = {**lease.blank(self._namespace, self._name), **body}
        before = self._seen
        self._seen = before.wrote(await self._leases.write_lease(body), began)
        self._reason = ""
        if before.renewed is None:
            log.info("leading", lease=self._lease_name, me=self._me, before=before.holder)
            self._changed(f"{self._me} leads")
        self._fence.extend(began + self._timings.renew_deadline)

    def _step_down(self, why: str) -> None:
        self._fence.end()
        self._seen = self._seen.stepped_down()
        log.warning("lost leadership", lease=self._lease_name, why=why)
        self._changed(f"{self._me} lost leadership: {why}")

    def _note_holder(self) -> None:
        reason = f"{self._seen.holder} leads"
        if self._reason != reason:
            self._reason = reason
            log.info("another replica leads", lease=self._lease_name, leader=self._seen.holder)
            self._changed(reason)

    def _changed(self, what: str) -> None:
        self._publish(Acted(ActionKind.LEADER, text=what, topic=ActionKind.LEADER))

    def _log_failure(self, why: str) -> None:
        """Warn once per reason: this runs every two seconds."""
        level = log.debug if why == self._reason else log.warning
        level("cannot read or write the lease", lease=self._lease_name, error=why)
        self._reason = why

    def _left(self, now: float) -> float:
        """Seconds until the renew deadline."""
        if self._seen.renewed is None:
            return self._timings.retry
        return self._seen.renewed + self._timings.renew_deadline - now

    @property
    def _lease_name(self) -> str:
        return f"{self._namespace}/{self._name}"


def identity() -> str:
    """A name unique to this process: a restarted container in the same pod must not count as the holder."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
