"""What is known of the stop: the object as the watch last reported it."""

import time
from collections.abc import Callable, Iterator

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.stops import Stop, Stops
from evaluator.core.signals import Acted, PolicyReportChanged, Publish, StopsChanged, unheard
from evaluator.features.stop.entries import NAME, StopEntry, StopObject
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

STOPPED, RESUMED = "stopped", "resumed"
"""Kinds of actions in the history."""
_UNKNOWN = Stops(Stop(frozen=True))
UNREAD = f"the ConfigMap {NAME} was not read yet: nothing new is done"
_NOTED, _LINES = 20, 1.0
"""Entries of one edit that are logged and recorded in the history; log lines a second on average."""
_GRACE = 10.0
"""Seconds after the start until statuses say that the object was not read."""


class StopState:
    """The sink of the watch of the object. A lost watch keeps the last one; before the first list, everything is frozen."""

    def __init__(
        self, publish: Publish = unheard, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` returns seconds."""
        self._publish = publish
        self._clock = clock
        self._log = RateLimitedLogger(log, rate=_LINES, burst=_NOTED)
        self._started = clock()
        self._read_at: float | None = None
        self.object: StopObject | None = None

    @property
    def stops(self) -> Stops:
        """What is stopped."""
        return _UNKNOWN if self.object is None else self.object.stops

    @property
    def settled(self) -> bool:
        """Whether statuses may be written: the object was read, or should have been."""
        return self.object is not None or self._clock() - self._started > _GRACE

    @property
    def age(self) -> float:
        """Seconds since the copy was known to be current; since the start, if it never was."""
        return self._clock() - (self._started if self._read_at is None else self._read_at)

    def entry(self, policy: PolicyKey) -> StopEntry | None:
        """Return the entry that stops a policy; None too while the object was not read."""
        return self.object.entry(policy) if self.object is not None else None

    def sentences(self, namespace: str = "") -> list[str]:
        """Return what is stopped in a namespace, or in all if it is empty, by whom, when and why."""
        if self.object is None:
            return [UNREAD]
        return [
            entry.sentence
            for entry in self.object.entries
            if not (namespace and entry.policy) or entry.policy.namespace == namespace
        ]

    def alive(self) -> None:
        """The copy is current."""
        self._read_at = self._clock()

    def replacing(self, objects: list[StopObject]) -> Iterator[None]:
        """Take over a list, which has one object at most."""
        self._take(next((one for one in objects if one.name == NAME), StopObject()))
        yield from ()

    def put(self, found: StopObject) -> None:
        """Take over an object."""
        if found.name == NAME:
            self._take(found)

    def drop(self, found: StopObject) -> None:
        """The object was deleted: nothing is stopped."""
        if found.name == NAME:
            self._take(StopObject())

    def _take(self, found: StopObject) -> None:
        before, self.object = self.object, found
        if before == found:
            return
        self._note(() if before is None else before.entries, found.entries)
        self._publish(StopsChanged())
        self._publish(PolicyReportChanged())

    def _note(self, before: tuple[StopEntry, ...], now: tuple[StopEntry, ...]) -> None:
        """Log what is stopped and what is not any more, and record it for the history."""
        for kind, entries in ((STOPPED, {*now} - {*before}), (RESUMED, {*before} - {*now})):
            for entry in sorted(entries, key=lambda one: one.sentence)[:_NOTED]:
                self._log.log(
                    kind, policy=str(entry.policy or "all"), mode=entry.mode, why=entry.why
                )
                said = entry.sentence
                self._publish(Acted(kind, entry.policy, text=said, topic=said))
