"""The loop around decide(): looks when pods, nodes or policies changed, lifts what is to be lifted, and remembers what came of it.

Only the replica that may write decides, and only on what is known to be so: after a list of all pods that began when it got
that right, and never on stale data. What it did itself it waits to see on the watch before it decides anew.
"""

import asyncio
import contextlib
import math
import operator
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from evaluator.engine.loop import DecisionLoop
from evaluator.gangs import gauges
from evaluator.gangs.core.decide import deciding
from evaluator.gangs.core.index import GangIndex
from evaluator.gangs.core.packing import Capacity
from evaluator.gangs.core.podgroup import GangKey
from evaluator.gangs.core.types import (
    GangDecisions,
    GangHistory,
    GangReason,
    GangRelease,
    GangTimings,
)
from evaluator.gangs.ungater import UngateResult
from evaluator.kubeapi.transport import KubeError
from evaluator.metrics import Metrics
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

_SETTLE = 0.01
"""Seconds from a change to a decision: what changes together, as a gang that gets its nodes, costs few of them."""
_REST = 5
"""After a decision, the time that it took so many times over, until the next: a sixth of one core at most."""
_SLICE = 0.001
"""Seconds of work after which others have their turn, for as long."""
_LONGEST_WAIT = 60.0
"""Seconds between two looks at least: times are of the wall clock, which somebody may set back."""
_PATIENCE = 10.0
"""Seconds in which the watch has to tell of gates that we lifted; after that it is thought to have missed something."""
_FEW = 3
"""Gangs in a row of which no gate could be lifted: from there on it is likely that none can be, and there is no hurry."""
_SLOWER, _SLOW = 0.05, 0.5
"""Seconds between two tries then, at first and at most: if it is just those gangs after all, others are behind them in the line."""
_BUSY = {429, 503}
"""Statuses by which the server asks to be left alone, whatever is asked of it."""

ANOTHER = "another replica is the one that decides on gangs"
UNLISTED = "a list of all pods, begun after this replica became the one that decides"


class CapacitySource(Protocol):
    """The room that nodes have."""

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before it is known."""
        ...

    def catching_up(self) -> Iterator[None]:
        """The larger part of the work, in steps."""
        ...

    def capacity(self) -> Capacity:
        """The room now."""
        ...


class UngaterAPI(Protocol):
    """What lifts gates."""

    async def ungate_pods(self, release: GangRelease) -> UngateResult:
        """Lift the gates of the pods that a release comes to."""
        ...


class GangController:
    """`wake()` when pods, nodes or policies changed; `start_over()` when this replica is the one that writes from now on.

    `list_anew()` has all pods listed once more. `listeners` are told of each decision, once all was done that follows from it.
    """

    def __init__(
        self,
        ungater: UngaterAPI,
        index: GangIndex,
        tracker: CapacitySource,
        decider: DecisionLoop,
        metrics: Metrics,
        *,
        terms: GangTimings,
        is_leader: Callable[[], bool],
        list_anew: Callable[[], "asyncio.Future[None]"],
        settle: float = _SETTLE,
        patience: float = _PATIENCE,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self._ungater = ungater
        self._index = index
        self._tracker = tracker
        self._decider = decider
        self._metrics = metrics
        self._terms = terms
        self._is_leader = is_leader
        self._list_anew = list_anew
        self._settle = settle
        self._patience = patience
        self._clock = clock
        self._random = (rng or random.Random()).random  # noqa: S311 (jitter)
        self._backoff = Backoff(self._random)
        self._in_vain = 0
        self._wake = asyncio.Event()
        self._listed: asyncio.Future[None] | None = None
        self._memory = GangHistory()
        self._outcome = GangDecisions()
        self._decided_at = -math.inf
        self._waited_for: Sequence[str] = (UNLISTED,)
        self._let_in: Sequence[tuple[object, ...]] = ()
        self.listeners: list[Callable[[], None]] = []
        gauges.show(metrics, index, lambda: self.outcome, clock)

    @property
    def outcome(self) -> GangDecisions:
        """The latest decision, with those releases that came about; empty where another replica decides."""
        return self._outcome if self._is_leader() else GangDecisions()

    @property
    def waiting_for(self) -> Sequence[str]:
        """Why nothing is decided now."""
        if not self._is_leader():
            return (ANOTHER,)
        if self._listed is None or not self._listed.done():
            return (UNLISTED,)
        return self._tracker.waiting_for or self._decider.waiting_for

    def wake(self) -> None:
        """Look soon."""
        self._wake.set()

    def decided(self) -> None:
        """Policies were decided on: look soon if they let in others than before, or what was waited for may be there."""
        policies = self._decider.latest.policies
        let_in = [(key, one.dontschedule, one.unreported) for key, one in policies.items()]
        if self._waited_for or not _same(let_in, self._let_in):
            self.wake()
        self._let_in = let_in

    def start_over(self) -> None:
        """This replica decides from now on. What another one did, pods tell."""
        self._memory, self._outcome = GangHistory(), GangDecisions()
        self._look_at_all()

    async def run(self) -> None:
        """Decide for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._until_due()):
                    await self._wake.wait()
            await asyncio.sleep(self._settle)
            self._wake.clear()
            if self._may_decide():
                for _ in self._tracker.catching_up():
                    await asyncio.sleep(0)
                # Meanwhile something may have changed that decides whether this is ours to decide.
                if self._may_decide():
                    await self._decide()

    def _may_decide(self) -> bool:
        waiting_for = self.waiting_for
        if list(waiting_for) != list(self._waited_for) and self._is_leader():
            log.info("deciding on gangs", waiting_for=", ".join(waiting_for) or "nothing")
        self._waited_for = waiting_for
        return not waiting_for

    def _until_due(self) -> float:
        if self._waited_for:
            return _LONGEST_WAIT
        return min(max(0.0, self.outcome.again - self._clock()), _LONGEST_WAIT)

    def _moment(self) -> float:
        """Now. Where somebody has set the clock back, all times that are remembered would be of times to come."""
        now = self._clock()
        if now < self._decided_at:
            self._memory = GangHistory(self._memory.admitted)
        self._decided_at = now
        return now

    async def _decide(self) -> None:
        listed = self._listed
        found, worked = await self._decide_in_slices()
        if self._listed is not listed or not self._may_decide():
            return  # it rests on what is not known to be so any more
        self._metrics.gang_decide_seconds.observe(worked)
        self._memory = found.memory
        for gang in found.timeouts:
            self._metrics.gang_timeouts.inc()
            log.warning("gang not placed in time", gang=str(gang))
        done = await self._release(found.releases)
        self._outcome = replace(found, releases=tuple(done), memory=self._memory)
        for tell in self.listeners:
            tell()
        if done:
            await self._caught_up(done)
        await asyncio.sleep(max(0.0, _REST * worked - self._settle))

    async def _decide_in_slices(self) -> tuple[GangDecisions, float]:
        """A decision, and the seconds of the processor that it took; kube-scheduler need not wait for an answer meanwhile."""
        worked, begun, now = 0.0, time.thread_time(), self._moment()
        steps = deciding(
            self._index.gangs,
            self._tracker.capacity(),
            self._memory,
            self._terms,
            now=now,
            random=self._random,
        )
        while True:
            try:
                next(steps)
            except StopIteration as done:
                outcome: GangDecisions = done.value
                return outcome, worked + time.thread_time() - begun
            if (spent := time.thread_time() - begun) >= _SLICE:
                worked += spent
                await asyncio.sleep(spent)
                begun = time.thread_time()

    async def _release(self, releases: Sequence[GangRelease]) -> list[GangRelease]:
        """Lift gates; those releases are returned that came about, each with the pods whose gates are lifted."""
        done, listed = [], self._listed
        for release in releases:
            if self._listed is not listed:  # what was decided rests on what was known before
                break
            result = await self._ungater.ungate_pods(release)
            if result.pods:
                self._in_vain = 0
                done.append(replace(release, pods=result.pods))
                self._note(done[-1])
            if result.why_not and not await self._goes_on(release.gang, result):
                break
        else:
            self._backoff.reset()
        return done

    def _note(self, release: GangRelease) -> None:
        now = self._clock()
        self._memory = self._memory.released(release, now=now)
        self._metrics.gang_releases.labels(release.reason.value).inc()
        made = [pod.created for pod in release.pods if pod.created is not None]
        if release.reason is GangReason.ADMITTED and made:
            self._metrics.gang_waits.observe(max(0.0, now - min(made)))
        log.info(
            "gang released",
            gang=str(release.gang),
            reason=release.reason.value,
            pods=len(release.pods),
        )

    async def _goes_on(self, gang: GangKey, result: UngateResult) -> bool:
        """What follows where not all gates could be lifted: for this gang alone, or, if nobody is served, for all."""
        self._wake.set()
        error = result.error
        if error is None or (error.status and error.status not in _BUSY):
            log.warning("gates not lifted, trying again", gang=str(gang), why=result.why_not)
            self._memory = self._memory.ungate_failed(
                gang, result.why_not, now=self._clock(), random=self._random
            )
            await self._slow_down(result)
            return True
        if self._is_leader():
            await self._wait_for_server(error)
        return False

    async def _slow_down(self, result: UngateResult) -> None:
        """Hundreds of gangs, each of which may be tried anew, are no reason to ask without a pause what is always refused."""
        if result.pods:
            return
        self._in_vain += 1
        if self._in_vain >= _FEW:
            times = min(self._in_vain - _FEW, 10)
            await asyncio.sleep(min(_SLOW, _SLOWER * 2.0**times))

    async def _wait_for_server(self, error: KubeError) -> None:
        delay = max(self._backoff.next(), error.retry_after or 0.0)
        log.warning("gates not lifted, trying again", error=str(error), delay=round(delay, 2))
        if not error.status:
            # It may have been done, and nobody said so: pods tell, and whose they are is taken for just released.
            self._memory = replace(self._memory, fresh=True)
            self._look_at_all()
        await asyncio.sleep(delay)

    def _look_at_all(self) -> None:
        self._listed = self._list_anew()
        self._listed.add_done_callback(lambda _: self.wake())
        self.wake()

    async def _caught_up(self, releases: Sequence[GangRelease]) -> None:
        """The next decision is on pods as they are by now: wait until the watch has told what was done."""
        try:
            async with asyncio.timeout(self._patience):
                while any(map(self._is_unseen, releases)):
                    await self._wake.wait()
                    self._wake.clear()
        except TimeoutError:
            log.warning("nothing is heard of gates that were lifted: all pods are listed anew")
            self._look_at_all()
        self._wake.set()

    def _is_unseen(self, release: GangRelease) -> bool:
        gang = self._index.find(release.gang)
        lifted = {pod.uid for pod in release.pods}
        return gang is not None and any(pod.uid in lifted for pod in gang.gated)


def _same(one: Sequence[tuple[object, ...]], other: Sequence[tuple[object, ...]]) -> bool:
    """Whether these are the very same objects: what came out as before is not made anew."""
    return len(one) == len(other) and all(
        a == b and all(map(operator.is_, rest, others))
        for (a, *rest), (b, *others) in zip(one, other, strict=True)
    )
