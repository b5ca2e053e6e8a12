"""Writes Events on TASPolicies: violations that begin and end, and problems of the policy."""

import asyncio
import collections
import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client import Counter

from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube
from evaluator.core.kube.event_writers import EventWriter
from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.events import EventSpec, ObjectReference
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.problems import SimilarTo, not_found_events
from evaluator.core.policy_status import PartsOf, no_parts
from evaluator.features.status import plan
from evaluator.features.status.plan import ReportedState
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

_VERSION = "telemetry.intel.com/v1alpha1"


def _writing(key: PolicyKey) -> str:
    """Return what the writing of a policy's Events is called in the log: it may fail where its comparison does not."""
    return f"writing of {key}"


@dataclass(frozen=True, slots=True)
class EventRate:
    """At most `limit` writes per policy in `period` seconds, and `pause` seconds between two rounds."""

    limit: int = 10
    period: float = 300.0
    pause: float = 1.0


@dataclass(slots=True)
class _EventState:
    """The state of a policy that was last recorded, and pending Events with their counts."""

    reported: ReportedState
    pending: collections.Counter[EventSpec] = field(default_factory=collections.Counter)
    events: dict[EventSpec, tuple[str, int]] = field(default_factory=dict)
    """The suffix and count of written Events."""
    recent: collections.deque[float] = field(default_factory=collections.deque)
    """Times of recent writes (seconds)."""

    def due(self, pace: EventRate, moment: float) -> float:
        """Seconds until the next write is permitted."""
        while self.recent and self.recent[0] + pace.period <= moment:
            self.recent.popleft()
        full = len(self.recent) >= pace.limit
        return self.recent[0] + pace.period - moment if full else 0.0


class PolicyEventRecorder:
    """Records changes of each policy as Events. Call `wake()` after new decisions. Writes only while `is_leader()`.

    `counted`: counts occurrences by namespace, policy and reason.
    """

    def __init__(
        self,
        kube: Kube,
        decider: DecisionLoop,
        counted: Counter,
        *,
        similar_to: SimilarTo = lambda _metric: (),
        parts_of: PartsOf = no_parts,
        status_of: Callable[[PolicyKey], Mapping[str, Any]] = lambda _key: {},
        exists: Callable[[PolicyKey, str], bool] = lambda _key, _uid: True,
        is_leader: Callable[[], bool] = lambda: True,
        pace: EventRate | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        part: Part | None = None,
    ) -> None:
        self._part = part or uncounted("events of policies")
        self._writer = EventWriter(kube)
        self._decider = decider
        self._counted = counted
        self._similar_to = similar_to
        self._parts_of = parts_of
        self._status_of = status_of
        self._exists = exists
        self._is_leader = is_leader
        self._pace = pace or EventRate()
        self._clock = clock
        self._wakeup = WakeUp()
        self._states: dict[tuple[PolicyKey, str], _EventState] = {}
        """By policy and uid."""
        self._resumes = True
        """Whether the next look continues another process's records, known from the statuses in the cluster."""
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)

    def wake(self) -> None:
        """Compare and write soon."""
        self._wakeup.set()

    def start_over(self) -> None:
        """This replica became leader: read the last recorded state from the cluster again."""
        self._states, self._resumes = {}, True
        self.wake()

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            await self._wakeup.wait(self._until_due())
            if self._idle():
                continue
            await self._look()
            try:
                await self._write()
            except KubeError as error:
                delay = self._backoff.next()
                log.warning("events not written, trying again", error=str(error), delay=delay)
                self._wakeup.set()
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
        pending = [
            state
            for (key, _), state in self._states.items()
            if state.pending and not self._part.is_resting(_writing(key))
        ]
        due = min((state.due(self._pace, moment) for state in pending), default=None)
        return self._part.until_retry(due)

    async def _look(self) -> None:
        """Queue Events for what changed; drop policies that were deleted."""
        decisions = self._decider.latest
        # A status that this process wrote says nothing about its events: they may be written later.
        statuses = (
            {key: self._status_of(key) for key in decisions.policies} if self._resumes else {}
        )
        before, states = self._states, dict[tuple[PolicyKey, str], _EventState]()
        for key, decision in decisions.policies.items():
            identity = (key, decision.policy.uid)
            look = partial(self._compare, decision, before.get(identity), statuses.get(key, {}))
            state = self._part.attempt(str(key), look, before.get(identity))
            if state is not None:
                states[identity] = state
            await asyncio.sleep(0)
        if self._states is before:  # else start_over() was called meanwhile
            self._states, self._resumes = states, False

    def _compare(
        self, decision: Decision, state: _EventState | None, status: Mapping[str, Any]
    ) -> _EventState:
        """Return the state of a policy, with the Events for what changed."""
        not_found = not_found_events(decision.not_found, self._similar_to)
        parts = tuple(self._parts_of(decision))
        reported = plan.reported_state(decision, parts, not_found)
        if state is None:
            generation = decision.policy.generation
            state = _EventState(plan.previously_reported(status, reported, generation, parts))
        for spec in plan.diff(state.reported, reported):
            state.pending[spec] += 1
            self._counted.labels(*decision.policy.key, spec.reason).inc()
        state.reported = reported
        return state

    async def _write(self) -> None:
        """Write pending Events within the rate limit. Raises KubeError for failures worth a retry."""
        for (key, uid), state in tuple(self._states.items()):
            if not self._part.is_resting(_writing(key)):
                with self._part.isolated(_writing(key), passing=(KubeError,)):
                    await self._write_of(key, uid, state)

    async def _write_of(self, key: PolicyKey, uid: str, state: _EventState) -> None:
        """Write the pending Events of a policy. Raises KubeError for failures worth a retry."""
        for spec in tuple(state.pending):
            if not self._is_leader() or state.due(self._pace, self._clock()) > 0:
                break
            if not self._exists(key, uid):
                break  # deleted since the decision
            try:
                await self._record(key, uid, state, spec)
            except KubeError as error:
                if error.transient:
                    raise
                log.warning("event refused", policy=str(key), error=str(error))
            state.recent.append(self._clock())
            del state.pending[spec]

    async def _record(self, key: PolicyKey, uid: str, state: _EventState, spec: EventSpec) -> None:
        about = ObjectReference(_VERSION, "TASPolicy", key.namespace, key.name, uid)
        suffix, count = state.events.get(spec) or (uuid.uuid4().hex[:16], 0)
        times = state.pending[spec]
        count = await self._writer.write(about, spec, suffix=suffix, count=count, times=times)
        state.events[spec] = suffix, count
