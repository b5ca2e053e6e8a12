"""Takes part in the election by a Lease, so that of all replicas that answer the scheduler just one writes to the cluster."""

import asyncio
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol, assert_never

from evaluator.kubeapi.transport import KubeError
from evaluator.leader import lease
from evaluator.leader.lease import Acquire, LeaseTimings, ObservedLease, Renew, StepDown, Wait
from evaluator.leader.write_fence import WriteFence, clock
from plimsoll import logs, rfc3339

log = logs.get(__name__)

_PATIENCE = 3.0
"""Seconds that giving up the lease may take: a program that is going away does not wait for an API server that is gone."""


class Leases(Protocol):
    """Where the lease is kept. Both raise KubeError."""

    async def read_lease(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The lease; None if there is none."""
        ...

    async def write_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make it, or replace what has the resourceVersion in it; 409 if somebody else was faster."""
        ...


class Leader:
    """Keeps the mandate as the lease says. `run()` until cancelled, `resign()` to end it in order."""

    def __init__(
        self,
        leases: Leases,
        fence: WriteFence,
        terms: LeaseTimings,
        *,
        namespace: str,
        name: str,
        me: str = "",
        clock: Callable[[], float] = clock,
    ) -> None:
        self._leases = leases
        self._fence = fence
        self._terms = terms
        self._namespace = namespace
        self._name = name
        self._me = me or identity()
        self._clock = clock
        self._seen = ObservedLease()
        self._complaint = ""
        self._turn = asyncio.Lock()

    @property
    def holds(self) -> bool:
        """Whether it believes that the lease is its own; what may be done with it is the mandate's to say."""
        return self._seen.renewed is not None

    async def run(self) -> None:
        """Acquire, renew, wait, step down, for ever."""
        while True:
            async with self._turn:
                delay = await self.try_acquire_or_renew()
            await asyncio.sleep(delay)

    async def try_acquire_or_renew(self) -> float:
        """Look at the lease once and do what follows from it; returns the seconds until the next look."""
        begin = self._clock()
        try:
            async with asyncio.timeout(self._terms.renew_deadline / 2):
                found = await self._leases.read_lease(self._namespace, self._name)
                self._seen = self._seen.read(found, self._clock())
                return await self._step()
        except (KubeError, TimeoutError) as error:
            self._complain(str(error) or "no answer in time")
        now = self._clock()
        if isinstance(step := lease.decide(self._seen, self._me, self._terms, now), StepDown):
            self._step_down(step.why)
        return max(0.0, min(self._terms.retry, begin + self._terms.retry - now, self._left(now)))

    async def release(self) -> None:
        """Let what is being written end, write nothing more, and let the next one have the lease at once.

        `run()` keeps the lease until then, and must be cancelled afterwards.
        """
        await self._fence.finish(_PATIENCE)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._turn.acquire()  # for good: what is given up must not be taken again
                if self._seen.renewed is None or self._seen.lease is None:
                    return
                await self._leases.write_lease(
                    lease.given_up(self._seen.lease, at=rfc3339.micros(time.time()))
                )
            log.info("gave up the lease", lease=self._spelled)
        except (KubeError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            log.warning("could not give up the lease: it runs out", lease=self._spelled, error=why)

    async def _step(self) -> float:
        terms, now = self._terms, self._clock()
        match lease.decide(self._seen, self._me, terms, now):
            case Acquire() | Renew():
                await self._write(began=now)
                return terms.retry
            case Wait(seconds):
                self._note_holder()
                return min(terms.retry, seconds)
            case StepDown(why):
                self._step_down(why)
                return 0.0
            case other:
                assert_never(other)

    async def _write(self, *, began: float) -> None:
        """Raises KubeError if somebody else was faster, or nobody answered: then what is held is what was."""
        body = lease.held(self._seen, self._me, self._terms, at=rfc3339.micros(time.time()))
        body = {**lease.blank(self._namespace, self._name), **body}
        before = self._seen
        self._seen = before.wrote(await self._leases.write_lease(body), began)
        self._complaint = ""
        if before.renewed is None:
            log.info("leading", lease=self._spelled, me=self._me, before=before.holder)
        self._fence.extend(began + self._terms.renew_deadline)

    def _step_down(self, why: str) -> None:
        self._fence.end()
        self._seen = self._seen.stepped_down()
        log.warning("not leading any more", lease=self._spelled, why=why)

    def _note_holder(self) -> None:
        told = f"{self._seen.holder} leads"
        if self._complaint != told:
            self._complaint = told
            log.info("another replica writes", lease=self._spelled, leader=self._seen.holder)

    def _complain(self, why: str) -> None:
        """Once for each reason: this comes around every two seconds."""
        level = log.debug if why == self._complaint else log.warning
        level("the lease cannot be had", lease=self._spelled, error=why)
        self._complaint = why

    def _left(self, now: float) -> float:
        """Seconds until what is held runs out."""
        if self._seen.renewed is None:
            return self._terms.retry
        return self._seen.renewed + self._terms.renew_deadline - now

    @property
    def _spelled(self) -> str:
        return f"{self._namespace}/{self._name}"


def identity() -> str:
    """A name that no other process has, nor had: one that comes back in the same pod must not believe it still leads."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
