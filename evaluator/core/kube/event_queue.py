"""Queue of the Events to write on pods, with de-duplication. No I/O, no clock; times in seconds.

There is one event per pod and reason. A message is written once it has been stable for `settle`: while a group of a hundred
pods is created, each of "1 of 100 pods exist" to "99 of 100 pods exist" would be an update on every pod. A message that keeps
changing is written after `patience`. A message that stays is repeated, as the API server deletes events after an hour.
"""

import heapq
import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from evaluator.core.model.events import EventSpec, ObjectReference, on_pod


@dataclass(frozen=True, slots=True)
class EventTimings:
    """In seconds."""

    settle: float = 2.0
    """How long a message must be stable before it is written."""
    patience: float = 10.0
    """How long a message may keep changing before it is written anyway."""
    rest: float = 10.0
    """Between two writes of one event."""
    repeat: float = 1800.0
    """Between two writes of an unchanged message."""


class PodIdentity(Protocol):
    """What an event needs of a pod."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


class EventKey(NamedTuple):
    """Identifies an event: a pod and a reason."""

    namespace: str
    name: str
    uid: str
    reason: str

    @property
    def about(self) -> ObjectReference:
        """The reference of the pod."""
        return on_pod(self.namespace, self.name, self.uid)


@dataclass(slots=True)
class EventState:
    """One event: the wanted message, and the message in the cluster."""

    event_key: EventKey
    notice: EventSpec
    since: float
    """When the wanted message was set."""
    pending: float | None
    """Since when the wanted message differs from the written one; None if they are equal."""
    reported: EventSpec | None = None
    at: float = -math.inf
    """When it was last written."""
    count: int = 0
    """The event's count; 0 if it is not known to exist."""
    queued: float = math.inf
    """The earliest entry for it in the queue."""
    once: bool = False
    """Whether it is written a single time."""
    over: bool = False
    """Whether it is no longer wanted."""
    earliest: float = -math.inf
    """When it may be written again after its write raised."""

    def due(self, pace: EventTimings) -> float:
        """Return when it is to be written; infinity if never."""
        if self.over:
            return math.inf
        if self.pending is None:
            return max(self.at + pace.repeat, self.earliest)
        settled = min(self.since + pace.settle, self.pending + pace.patience)
        return max(settled, self.at + pace.rest, self.earliest)


Subject = Hashable
"""What a set of events belongs to: a group of pods, or a single pod."""


@dataclass(slots=True)
class EventQueue:
    """All event states by subject, and a queue of those to write, ordered by due time."""

    pace: EventTimings = field(default_factory=EventTimings)
    _states: dict[Subject, dict[EventKey, EventState]] = field(default_factory=dict)
    _queue: list[tuple[float, int, EventState]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def subjects(self) -> Collection[Subject]:
        """The subjects with wanted events."""
        return self._states.keys()

    def want(
        self,
        subject: Subject,
        pods: Iterable[PodIdentity],
        notices: Collection[EventSpec],
        now: float,
    ) -> None:
        """Set the wanted events of a subject: each of `notices` on each of `pods`. Others of the subject are dropped."""
        before = self._states.get(subject, {})
        latest = _latest(before)
        after: dict[EventKey, EventState] = {}
        for pod in pods:
            for notice in notices:
                event_key = EventKey(pod.namespace, pod.name, pod.uid, notice.reason)
                state = after[event_key] = before.get(event_key) or EventState(
                    event_key, notice, now, now
                )
                if state.over:
                    _reopen(state, notice, now, is_latest=state.at == latest[pod.uid])
                elif notice != state.notice:
                    _change(state, notice, now)
                self._enqueue(state)
        # Keep the state of other reasons for pods that still wait: the reason may return.
        waiting = {event_key.uid for event_key in after}
        for event_key in before.keys() - after.keys():
            before[event_key].over = True
            if event_key.uid in waiting and before[event_key].count:
                after[event_key] = before[event_key]
        if after:
            self._states[subject] = after
        else:
            self._states.pop(subject, None)

    def mention(self, pod: PodIdentity, notice: EventSpec, now: float) -> None:
        """Enqueue an event to write once, about something that is over."""
        event_key = EventKey(pod.namespace, pod.name, pod.uid, notice.reason)
        self._enqueue(EventState(event_key, notice, now, now, once=True))

    def forget(self, subject: Subject) -> None:
        """Drop all events of a subject."""
        for state in self._states.pop(subject, {}).values():
            state.over = True

    def next_due(self) -> float:
        """Return a lower bound for when the next event is due; infinity if there is none."""
        return self._queue[0][0] if self._queue else math.inf

    def pop_due(self, now: float) -> EventState | None:
        """Remove and return the event that is due for longest, or None. Call `done()` or `requeue()` for it afterwards."""
        while self._queue and self._queue[0][0] <= now:
            _, _, state = heapq.heappop(self._queue)
            state.queued = math.inf
            if state.due(self.pace) <= now:
                return state
            self._enqueue(state)
        return None

    def done(self, state: EventState, notice: EventSpec, now: float, *, count: int) -> None:
        """Record that `notice` was written; the wanted message may have changed meanwhile."""
        state.reported, state.at, state.count = notice, now, count
        state.over = state.over or state.once
        state.pending = None if state.notice == notice else state.since
        self._enqueue(state)

    def postpone(self, state: EventState, until: float) -> None:
        """Enqueue an event again whose write raised, for a time from which on it may be written."""
        state.earliest = until
        self._enqueue(state)

    def requeue(self, state: EventState) -> None:
        """Enqueue an event again that could not be written."""
        self._enqueue(state)

    def _enqueue(self, state: EventState) -> None:
        """Add an entry unless there is an earlier one; `take()` postpones entries that are too early."""
        due = state.due(self.pace)
        if due < state.queued:
            state.queued = due
            heapq.heappush(self._queue, (due, next(self._numbers), state))


def _change(state: EventState, notice: EventSpec, now: float) -> None:
    """Set another message."""
    state.notice, state.since = notice, now
    if notice == state.reported:
        state.pending = None
    elif state.pending is None:
        state.pending = now


def _reopen(state: EventState, notice: EventSpec, now: float, *, is_latest: bool) -> None:
    """Want an event again. Nothing is pending if its message was the last one written on the pod."""
    state.notice, state.since, state.over = notice, now, False
    state.pending = None if is_latest and notice == state.reported else now


def _latest(stories: Mapping[EventKey, EventState]) -> dict[str, float]:
    """Return the time of the last write on each pod, by uid."""
    found: dict[str, float] = {}
    for event_key, state in stories.items():
        found[event_key.uid] = max(found.get(event_key.uid, -math.inf), state.at)
    return found
