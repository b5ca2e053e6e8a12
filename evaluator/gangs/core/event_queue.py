"""What events have told of gangs' pods, and what they have to tell next, and when. No I/O, no clock; times in seconds.

One story for each pod and reason. A text is told once it has stood for a moment: while a gang of a hundred pods is being
made, "1 of 100 pods exist" would be told a hundred times on one pod and "99 of 100" as often on another. What keeps changing
is told after a while as it is then. What stays so is told again now and then, since events live for an hour.
"""

import heapq
import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluator.model.pod_record import PodRecord
from evaluator.plans.policy_events import EventSpec


@dataclass(frozen=True, slots=True)
class EventTimings:
    """In seconds."""

    settle: float = 2.0
    """For which a text has to stand before it is told."""
    patience: float = 10.0
    """After which one that keeps changing is told nevertheless."""
    rest: float = 10.0
    """Between two times that something is told of one thread."""
    repeat: float = 1800.0
    """After which what is still so is told again."""


class EventKey(NamedTuple):
    """What there is one event for: a pod, and a reason."""

    namespace: str
    name: str
    uid: str
    reason: str


@dataclass(slots=True)
class EventState:
    """Of one thread, what is to be told, and what was."""

    event_key: EventKey
    notice: EventSpec
    since: float
    """When it was first wanted just so."""
    pending: float | None
    """Since when something is wanted that was not told; None where all is said."""
    reported: EventSpec | None = None
    at: float = -math.inf
    """When it was last told."""
    count: int = 0
    """How often the event says that it happened; 0 before it is known to exist."""
    queued: float = math.inf
    """The earliest time at which it stands in the queue."""
    once: bool = False
    """Whether it is to be told a single time."""
    over: bool = False
    """Whether nothing is to be told of it by now."""

    def due(self, pace: EventTimings) -> float:
        """When it is to be told."""
        if self.over:
            return math.inf
        if self.pending is None:
            return self.at + pace.repeat
        settled = min(self.since + pace.settle, self.pending + pace.patience)
        return max(settled, self.at + pace.rest)


Subject = Hashable
"""Whatever pods are told of together: a gang."""


@dataclass(slots=True)
class EventQueue:
    """All stories, by subject, and the queue of those to be told."""

    pace: EventTimings = field(default_factory=EventTimings)
    _states: dict[Subject, dict[EventKey, EventState]] = field(default_factory=dict)
    _queue: list[tuple[float, int, EventState]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def subjects(self) -> Collection[Subject]:
        """Of which there is something to tell."""
        return self._states.keys()

    def want(
        self,
        subject: Subject,
        pods: Iterable[PodRecord],
        notices: Collection[EventSpec],
        now: float,
    ) -> None:
        """From now on these, and nothing else, are to be told on these pods, and on no other of the subject."""
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
                    _begin_again(state, notice, now, is_latest=state.at == latest[pod.uid])
                elif notice != state.notice:
                    _change(state, notice, now)
                self._enqueue(state)
        # Of a pod that waits still, what was told for other reasons is kept: these may come back.
        waiting = {event_key.uid for event_key in after}
        for event_key in before.keys() - after.keys():
            before[event_key].over = True
            if event_key.uid in waiting and before[event_key].count:
                after[event_key] = before[event_key]
        if after:
            self._states[subject] = after
        else:
            self._states.pop(subject, None)

    def mention(self, pod: PodRecord, notice: EventSpec, now: float) -> None:
        """This is to be told once of a pod, of something that is over."""
        event_key = EventKey(pod.namespace, pod.name, pod.uid, notice.reason)
        self._enqueue(EventState(event_key, notice, now, now, once=True))

    def forget(self, subject: Subject) -> None:
        """Nothing of it is to be told any more."""
        for state in self._states.pop(subject, {}).values():
            state.over = True

    def next_due(self) -> float:
        """When the next is to be told, or may be; infinity where there is none."""
        return self._queue[0][0] if self._queue else math.inf

    def take(self, now: float) -> EventState | None:
        """The story that has been due for longest; None where none is. Afterwards it is to be `tell()`ed, or `again()`."""
        while self._queue and self._queue[0][0] <= now:
            _, _, state = heapq.heappop(self._queue)
            state.queued = math.inf
            if state.due(self.pace) <= now:
                return state
            self._enqueue(state)
        return None

    def tell(self, state: EventState, notice: EventSpec, now: float, *, count: int) -> None:
        """This was told, `count` times in all; what is wanted may have changed while it was written."""
        state.reported, state.at, state.count = notice, now, count
        state.over = state.over or state.once
        state.pending = None if state.notice == notice else state.since
        self._enqueue(state)

    def again(self, state: EventState) -> None:
        """It could not be told now."""
        self._enqueue(state)

    def _enqueue(self, state: EventState) -> None:
        """Make sure that it is looked at when it is due; an entry that is too early is put off then."""
        due = state.due(self.pace)
        if due < state.queued:
            state.queued = due
            heapq.heappush(self._queue, (due, next(self._numbers), state))


def _change(state: EventState, notice: EventSpec, now: float) -> None:
    """Another text is wanted."""
    state.notice, state.since = notice, now
    if notice == state.reported:
        state.pending = None
    elif state.pending is None:
        state.pending = now


def _begin_again(state: EventState, notice: EventSpec, now: float, *, is_latest: bool) -> None:
    """What was over is so once more. That is no news if it is what was told of the pod last."""
    state.notice, state.since, state.over = notice, now, False
    state.pending = None if is_latest and notice == state.reported else now


def _latest(stories: Mapping[EventKey, EventState]) -> dict[str, float]:
    """When something was last told of each pod, by uid."""
    found: dict[str, float] = {}
    for event_key, state in stories.items():
        found[event_key.uid] = max(found.get(event_key.uid, -math.inf), state.at)
    return found
