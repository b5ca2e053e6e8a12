"""Writes events on policies, so that `kubectl describe taspolicy` tells when a strategy was violated, and what is wrong."""

import asyncio
import collections
import contextlib
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluator.engine.loop import DecisionLoop
from evaluator.kubeapi.client import Kube, now
from evaluator.kubeapi.transport import KubeError
from evaluator.metrics import Metrics
from evaluator.model.names import PolicyKey
from evaluator.model.node_labels import LabelConflict
from evaluator.plans import events, policy_events
from evaluator.plans.label_conflicts import ConflictsByLabel
from evaluator.plans.policy_events import EventSpec, ReportedState
from evaluator.policy.decide import Decision
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

_VERSION = "telemetry.intel.com/v1alpha1"


@dataclass(frozen=True, slots=True)
class EventRate:
    """At most `limit` writes about one policy in `period` seconds, and `pause` seconds between two rounds of writing."""

    limit: int = 10
    period: float = 300.0
    pause: float = 1.0


@dataclass(slots=True)
class _EventState:
    """What was told of a policy, and what is still to be told, how many times over."""

    standing: ReportedState
    untold: collections.Counter[EventSpec] = field(default_factory=collections.Counter)
    events: dict[EventSpec, "_Event"] = field(default_factory=dict)
    recent: collections.deque[float] = field(default_factory=collections.deque)
    """When something was written (seconds)."""

    def due(self, pace: EventRate, moment: float) -> float:
        """The seconds until the next may be written."""
        while self.recent and self.recent[0] + pace.period <= moment:
            self.recent.popleft()
        full = len(self.recent) >= pace.limit
        return self.recent[0] + pace.period - moment if full else 0.0


@dataclass(slots=True)
class _Event:
    """An event that is in the cluster: what happens again is counted in it."""

    name: str
    count: int


class PolicyEventRecorder:
    """Tells what is new about each policy. `wake()` after new decisions."""

    def __init__(
        self,
        kube: Kube,
        decider: DecisionLoop,
        metrics: Metrics,
        conflicts: Callable[[], Sequence[LabelConflict]],
        *,
        said: Callable[[PolicyKey], Mapping[str, Any]] = lambda _key: {},
        is_leader: Callable[[], bool] = lambda: True,
        pace: EventRate | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._decider = decider
        self._metrics = metrics
        self._conflicts = conflicts
        self._said = said
        self._is_leader = is_leader
        self._pace = pace or EventRate()
        self._clock = clock
        self._wake = asyncio.Event()
        self._stories: dict[tuple[PolicyKey, str], _EventState] = {}
        """By policy and its uid."""
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)

    def wake(self) -> None:
        """Look for news soon."""
        self._wake.set()

    def start_over(self) -> None:
        """This replica tells from now on; what it told when it last did is no longer the last word."""
        self._stories = {}
        self.wake()

    async def run(self) -> None:
        """Tell for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._until_due()):
                    await self._wake.wait()
            self._wake.clear()
            if self._idle():
                continue
            await self._look()
            try:
                await self._write()
            except KubeError as error:
                delay = self._backoff.next()
                log.warning("events not written, trying again", error=str(error), delay=delay)
                self._wake.set()
                await asyncio.sleep(delay)
            else:
                self._backoff.reset()
                await asyncio.sleep(self._pace.pause)

    def _idle(self) -> bool:
        return bool(self._decider.waiting_for) or not self._is_leader()

    def _until_due(self) -> float | None:
        if self._idle():
            return None
        moment = self._clock()
        untold = [story for story in self._stories.values() if story.untold]
        return min((story.due(self._pace, moment) for story in untold), default=None)

    async def _look(self) -> None:
        """Note what is new, and forget the policies that are gone."""
        decisions, disputes = self._decider.latest, ConflictsByLabel(self._conflicts())
        before, stories = self._stories, dict[tuple[PolicyKey, str], _EventState]()
        for key, decision in decisions.policies.items():
            identity = (key, decision.policy.uid)
            standing = policy_events.reported_state(decision, disputes)
            story = before.get(identity) or self._begin(decision, standing)
            for notice in policy_events.diff(story.standing, standing):
                story.untold[notice] += 1
                self._metrics.policy_events.labels(*key, notice.reason).inc()
            story.standing = standing
            stories[identity] = story
            await asyncio.sleep(0)
        if self._stories is before:  # else start_over() was called meanwhile
            self._stories = stories

    def _begin(self, decision: Decision, standing: ReportedState) -> _EventState:
        policy = decision.policy
        return _EventState(
            policy_events.previously_reported(self._said(policy.key), standing, policy.generation)
        )

    async def _write(self) -> None:
        """Write what the pace allows. Raises KubeError if it is worth another try."""
        for (key, uid), story in tuple(self._stories.items()):
            for notice in tuple(story.untold):
                if not self._is_leader() or story.due(self._pace, self._clock()) > 0:
                    break
                try:
                    await self._tell(key, uid, story, notice)
                except KubeError as error:
                    if error.status in {0, 429} or error.status >= 500:
                        raise
                    log.warning("event refused", policy=str(key), error=str(error))
                story.recent.append(self._clock())
                del story.untold[notice]

    async def _tell(self, key: PolicyKey, uid: str, story: _EventState, notice: EventSpec) -> None:
        times = story.untold[notice]
        if (event := story.events.get(notice)) is not None:
            try:
                again = {"count": event.count + times, "lastTimestamp": now()}
                await self._kube.amend_event(key.namespace, event.name, again)
            except KubeError as error:
                if error.status != 404:  # events live for an hour
                    raise
            else:
                event.count += times
                return
        about = events.ObjectReference(_VERSION, "TASPolicy", key.namespace, key.name, uid)
        suffix = uuid.uuid4().hex[:16]
        body = events.event(about, notice, suffix=suffix, count=times, at=now())
        await self._kube.create_event(body)
        story.events[notice] = _Event(body["metadata"]["name"], times)
