"""The pods that wait for a node, and when each is tried next, as kube-scheduler queues them. No I/O, no clock."""

import itertools
import math
from dataclasses import dataclass

FLUSH = 300.0
"""Seconds after which an unschedulable pod is tried again although nothing happened."""

_MAX_BACKOFF = 10.0


@dataclass(slots=True)
class _Waiting:
    priority: int
    place: (
        int  # in the order in which pods came, or came back untaken; a lifted gate changes nothing
    )
    due: float
    gated: bool
    wakeable: bool = False  # by a nudge; a pod that failed by an error sits its back-off out
    in_flight: bool = False
    nudged: bool = False
    errors: int = 0


class SchedulingQueue:
    """Waiting pods by key. Times are seconds on any one clock, passed in."""

    def __init__(self) -> None:
        self._pods: dict[str, _Waiting] = {}
        self._places = itertools.count()

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def put(self, key: str, *, priority: int, gated: bool, now: float) -> None:
        """A pod seen for the first time, or seen again with another priority or other gates."""
        pod = self._pods.get(key)
        if pod is None:
            self._pods[key] = _Waiting(priority, next(self._places), now, gated)
            return
        pod.priority = priority
        if pod.gated and not gated:
            pod.due = now
        pod.gated = gated

    def forget(self, key: str) -> None:
        """A pod that waits no longer: bound, deleted, or somebody else's."""
        self._pods.pop(key, None)

    def take(self, now: float) -> str | None:
        """The next pod to try: of those that are due the one of highest priority, then the one that came first."""
        ready = [
            (-pod.priority, pod.place, key)
            for key, pod in self._pods.items()
            if _can_run(pod) and pod.due <= now
        ]
        if not ready:
            return None
        key = min(ready)[2]
        pod = self._pods[key]
        pod.in_flight, pod.nudged = True, False
        return key

    def due(self) -> float:
        """When the next pod is to be tried; infinity when none is."""
        return min((pod.due for pod in self._pods.values() if _can_run(pod)), default=math.inf)

    def nudge(self, key: str, now: float) -> None:
        """Something happened that may let this pod in."""
        if (pod := self._pods.get(key)) is not None:
            _nudge(pod, now)

    def nudge_all(self, now: float) -> None:
        """Something happened that may let any pod in."""
        for pod in self._pods.values():
            _nudge(pod, now)

    def refused(self, key: str, now: float) -> None:
        """The attempt ended: no node would do. It waits for a nudge, and has had it if one came meanwhile."""
        if (pod := self._back(key)) is None:
            return
        pod.wakeable, pod.errors = True, 0
        pod.due = now if pod.nudged else now + FLUSH

    def failed(self, key: str, now: float) -> None:
        """The attempt broke off by an error: 1, 2, 4, 8, then 10 seconds until the next."""
        if (pod := self._back(key)) is None:
            return
        pod.wakeable = False
        pod.due = now + min(2.0**pod.errors, _MAX_BACKOFF)
        pod.errors += 1

    def _back(self, key: str) -> _Waiting | None:
        """A pod that was tried in vain: those of its priority that were not go first now."""
        if (pod := self._pods.get(key)) is not None:
            pod.in_flight, pod.place = False, next(self._places)
        return pod


def _can_run(pod: _Waiting) -> bool:
    return not pod.in_flight and not pod.gated


def _nudge(pod: _Waiting, now: float) -> None:
    if pod.in_flight:
        pod.nudged = True
    elif pod.wakeable:
        pod.due = min(pod.due, now)
