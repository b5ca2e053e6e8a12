"""GangController: calls decide() when pods, nodes or policies have changed, removes gates, and keeps the history.

Only the leader decides, after a list of all pods that began when it became leader, and never on stale data. After a release it
waits until the watch shows the change before it decides again.
"""

import asyncio
import math
import operator
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.signals import Publish, Signal, unheard
from evaluator.features.gangs.core.decide import deciding
from evaluator.features.gangs.core.packing import Capacity
from evaluator.features.gangs.core.podgroup import GangIndex, GangKey
from evaluator.features.gangs.core.types import (
    GangDecisions,
    GangHistory,
    GangReason,
    GangRelease,
    GangTimings,
)
from evaluator.features.gangs.metrics import GangMetrics, bind_gauges
from evaluator.features.gangs.ungater import UngateResult
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.pace import Pace, sliced
from plimsoll.steps import Steps
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

_SETTLE = 0.01
"""Seconds from a change to a decision, so that changes that come together cause one decision."""
_REST = 5
"""Pause after a decision, as a multiple of its CPU time: decisions take at most a sixth of one core."""
PACE = Pace()
"""Of a decision: each pause is as long as the work before it."""
_LONGEST_WAIT = 60.0
"""The longest wait in seconds: deadlines are wall-clock times, and the clock may be set back."""
PATIENCE = 10.0
"""Seconds until the watch must show removed gates; then all pods are listed again."""
_FAILURES_BEFORE_DELAY = 3
"""Consecutive failed releases, without any removed gate, from which on attempts are delayed."""
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 0.5
"""Initial and maximum delay in seconds between these attempts; short, as gangs behind them may succeed."""
_OVERLOAD_STATUSES = {429, 503}
"""Statuses of an overloaded API server: no request is made until the back-off is over."""

ANOTHER = "another replica is leader"
UNLISTED = "a list of all pods that began after this replica became leader"


class CapacitySource(Protocol):
    """Provides the capacity of nodes; implemented by CapacityTracker."""

    def unsynced(self) -> Sequence[str]:
        """Return what is missing before the capacity is known."""
        ...

    def catching_up(self) -> Iterator[None]:
        """Do most of the work of `capacity()`, in steps."""
        ...

    def capacity(self) -> Capacity:
        """Return the current capacity."""
        ...


class UngaterAPI(Protocol):
    """Removes gates; implemented by Ungater."""

    async def ungate_pods(self, release: GangRelease) -> UngateResult:
        """Remove the gates of the pods that a release still applies to."""
        ...


class GangsDecided(Signal, frozen=True):
    """Gangs were decided on, and released."""


class GangController:
    """Decides on gangs and releases them.

    Call `wake()` when pods, nodes or policies have changed, and `start_over()` when this replica has become leader.
    `list_anew()` requests a new list of all pods. Publishes `GangsDecided` after each decision and its releases.
    """

    def __init__(
        self,
        ungater: UngaterAPI,
        index: GangIndex,
        tracker: CapacitySource,
        decider: DecisionLoop,
        metrics: GangMetrics,
        *,
        timings: GangTimings,
        is_leader: Callable[[], bool],
        list_anew: Callable[[], "asyncio.Future[None]"],
        publish: Publish = unheard,
        settle: float = _SETTLE,
        patience: float = PATIENCE,
        pace: Pace = PACE,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        part: Part | None = None,
    ) -> None:
        self._part = part or uncounted("gangs")
        self._ungater = ungater
        self._index = index
        self._tracker = tracker
        self._decider = decider
        self._metrics = metrics
        self._timings = timings
        self._is_leader = is_leader
        self._list_anew = list_anew
        self._settle = settle
        self._patience = patience
        self._pace = pace
        self._clock = clock
        self._random = (rng or random.Random()).random  # noqa: S311 (jitter)
        self._backoff = Backoff(self._random)
        self._failures_in_a_row = 0
        self._wakeup = WakeUp()
        self._listed: asyncio.Future[None] | None = None
        self._memory = GangHistory()
        self._decisions = GangDecisions()
        self._decided_at = -math.inf
        self._waited_for: Sequence[str] = (UNLISTED,)
        self._excluded_nodes: Sequence[tuple[object, ...]] = ()
        self._publish = publish
        bind_gauges(metrics, index, lambda: self.decisions, clock)

    @property
    def decisions(self) -> GangDecisions:
        """The latest decision, with its executed releases; empty on followers."""
        return self._decisions if self._is_leader() else GangDecisions()

    def undecided(self) -> Sequence[str]:
        """Return why no decisions are made now; empty if they are."""
        if not self._is_leader():
            return (ANOTHER,)
        if self._listed is None or not self._listed.done():
            return (UNLISTED,)
        return self._tracker.unsynced() or self._decider.waiting_for

    def wake(self) -> None:
        """Decide soon."""
        self._wakeup.set()

    def decided(self) -> None:
        """Handle new policy decisions: wake if eligible nodes have changed, or if the controller was waiting."""
        policies = self._decider.latest.enforced
        excluded = [
            (key, decision.dontschedule, decision.unreported) for key, decision in policies.items()
        ]
        if self._waited_for or not _same(excluded, self._excluded_nodes):
            self.wake()
        self._excluded_nodes = excluded

    def start_over(self) -> None:
        """Start with an empty history: this replica has become leader. Pods show what the previous leader did."""
        self._memory, self._decisions = GangHistory(), GangDecisions()
        self._look_at_all()

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            await self._wakeup.wait(self._until_due())
            await asyncio.sleep(self._settle)
            self._wakeup.clear()
            if self._may_decide():
                for _ in self._tracker.catching_up():
                    await asyncio.sleep(0)
                # Leadership or staleness may have changed meanwhile.
                if self._may_decide():
                    await self._decide()

    def _may_decide(self) -> bool:
        waiting_for = self.undecided()
        if list(waiting_for) != list(self._waited_for) and self._is_leader():
            log.info("deciding on gangs", waiting_for=", ".join(waiting_for) or "nothing")
        self._waited_for = waiting_for
        return not waiting_for

    def _until_due(self) -> float:
        if self._waited_for:
            return _LONGEST_WAIT
        return min(max(0.0, self.decisions.again - self._clock()), _LONGEST_WAIT)

    def _moment(self) -> float:
        """Return the current time. If the clock was set back, drop remembered times, which would be in the future."""
        now = self._clock()
        if now < self._decided_at:
            self._memory = GangHistory(self._memory.admitted)
        self._decided_at = now
        return now

    async def _decide(self) -> None:
        listed = self._listed
        decisions, worked = await sliced(self._deciding(), self._pace)
        if self._listed is not listed or not self._may_decide():
            return  # computed from data that is no longer valid
        self._metrics.gang_decide_seconds.observe(worked)
        self._memory = decisions.memory
        for gang in decisions.timeouts:
            self._metrics.gang_timeouts.inc()
            log.warning("gang not placed in time", gang=str(gang))
        done = await self._release(decisions.releases)
        self._decisions = replace(decisions, releases=tuple(done), memory=self._memory)
        self._publish(GangsDecided())
        if done:
            await self._caught_up(done)
        await asyncio.sleep(max(0.0, _REST * worked - self._settle))

    def _deciding(self) -> Steps[GangDecisions]:
        now = self._moment()
        return deciding(
            self._index.gangs,
            self._tracker.capacity(),
            self._memory,
            self._timings,
            now=now,
            random=self._random,
            guard=self._part,
        )

    async def _release(self, releases: Sequence[GangRelease]) -> list[GangRelease]:
        """Execute releases; return those with at least one removed gate, each with the ungated pods."""
        done, listed = [], self._listed
        for release in releases:
            if self._listed is not listed:  # the decision was computed from older data
                break
            result = UngateResult(why_not="an internal error: the evaluator's log has it")
            with self._part.isolated(f"release of {release.gang}"):
                result = await self._ungater.ungate_pods(release)
            if result.pods:
                self._failures_in_a_row = 0
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
        """Handle a failed release: back off for this gang, or for all if the API server is unavailable.

        Return whether to continue with other gangs.
        """
        self._wakeup.set()
        error = result.error
        if error is None or (error.status and error.status not in _OVERLOAD_STATUSES):
            log.warning("gates not removed; retrying", gang=str(gang), error=result.why_not)
            self._memory = self._memory.ungate_failed(
                gang, result.why_not, now=self._clock(), random=self._random
            )
            await self._slow_down(result)
            return True
        if self._is_leader():
            await self._wait_for_server(error)
        return False

    async def _slow_down(self, result: UngateResult) -> None:
        """Delay the next attempt if several gangs in a row failed: hundreds of gangs may be rejected for one reason."""
        if result.pods:
            return
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= _FAILURES_BEFORE_DELAY:
            times = min(self._failures_in_a_row - _FAILURES_BEFORE_DELAY, 10)
            await asyncio.sleep(min(_LONGEST_DELAY, _FIRST_DELAY * 2.0**times))

    async def _wait_for_server(self, error: KubeError) -> None:
        delay = max(self._backoff.next(), error.retry_after or 0.0)
        log.warning("gates not removed; retrying", error=str(error), delay=round(delay, 2))
        if not error.status:
            # The request may have succeeded: list all pods; ungated ones then count as just released.
            self._memory = replace(self._memory, fresh=True)
            self._look_at_all()
        await asyncio.sleep(delay)

    def _look_at_all(self) -> None:
        self._listed = self._list_anew()
        self._listed.add_done_callback(self._relisted)
        self.wake()

    def _relisted(self, _done: "asyncio.Future[None]") -> None:
        self.wake()

    async def _caught_up(self, releases: Sequence[GangRelease]) -> None:
        """Wait until the watch shows the removed gates."""
        try:
            async with asyncio.timeout(self._patience):
                while any(map(self._is_unseen, releases)):
                    await self._wakeup.wait()
        except TimeoutError:
            log.warning("removed gates not seen on the watch; listing all pods")
            self._look_at_all()
        self._wakeup.set()

    def _is_unseen(self, release: GangRelease) -> bool:
        gang = self._index.find(release.gang)
        ungated = {pod.uid for pod in release.pods}
        return gang is not None and any(pod.uid in ungated for pod in gang.gated)


def _same(before: Sequence[tuple[object, ...]], after: Sequence[tuple[object, ...]]) -> bool:
    """Return whether the items are identical objects; unchanged results are reused."""
    return len(before) == len(after) and all(
        a == b and all(map(operator.is_, rest, others))
        for (a, *rest), (b, *others) in zip(before, after, strict=True)
    )
