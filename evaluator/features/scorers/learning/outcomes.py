"""Derives outcomes from pod changes, for the `reward` scorer: 0 for a failure, 1 for a clean run.

A run gives the reward 1 once: when it succeeds, or when it has lasted STEADY seconds and is ready. A crash starts a
new run. A crash, a failure and an unresponsive node (phase Unknown) each give 0, once. Pods being deleted give
nothing, nor do pods that were already running when they were first seen.

kubeRL compares the seconds of the minute of a restart with those of the clock; here, elapsed time is used.
"""

import heapq
from collections.abc import Iterator

from evaluator.core.model.pod_record import PodRecord
from evaluator.features.scorers.learning.rewards import PodOutcome

STEADY = 300.0
"""Seconds after which a run counts as clean. The backoff of a crash-looping container is at most five minutes."""
_BAD = frozenset({"Failed", "Unknown"})


class OutcomeTracker:
    """Tracks the runs of pods without an outcome. Times are monotonic seconds, `wall` is the Unix time at that moment."""

    def __init__(self, *, steady: float = STEADY) -> None:
        self._steady = steady
        self._runs: dict[str, PodRecord] = {}
        self._dues: list[tuple[float, str]] = []
        """When to check each run; soonest first. Entries that are not in `_runs` are skipped."""
        self._due: dict[str, float] = {}

    def changed(
        self, before: PodRecord | None, after: PodRecord | None, *, now: float, wall: float
    ) -> list[PodOutcome]:
        """Return the outcomes of a pod's change; None: absent."""
        if before is not None and (after is None or after.uid != before.uid):
            self._forget(before.uid)
            before = None
        if after is None:
            return []
        if after.leaving or not after.node:
            self._forget(after.uid)
            return []
        if before is not None and _bad(before, after):
            self._forget(after.uid)
            if after.phase == "Running":
                self._begin(after, now + self._steady - _elapsed(after.crashed, wall))
            return [_outcome(after, 0)]
        return list(self._run(before, after, now, wall))

    def due(self, now: float) -> list[PodOutcome]:
        """Return the outcomes of runs that are clean by now. Pods that are not ready are checked again later."""
        outcomes = []
        while self._dues and self._dues[0][0] <= now:
            at, uid = heapq.heappop(self._dues)
            if self._due.get(uid) != at:
                continue
            run = self._runs[uid]
            if run.ready:
                self._forget(uid)
                outcomes.append(_outcome(run, 1))
            else:
                self._begin(run, now + self._steady)
        return outcomes

    def _run(
        self, before: PodRecord | None, after: PodRecord, now: float, wall: float
    ) -> Iterator[PodOutcome]:
        tracked = after.uid in self._runs
        if after.phase == "Succeeded":
            self._forget(after.uid)
            if before is not None and (tracked or before.phase in {"", "Pending"}):
                yield _outcome(after, 1)
        elif after.phase != "Running":
            self._forget(after.uid)
        elif tracked:
            self._runs[after.uid] = after
        elif before is None:
            if (elapsed := _elapsed(_latest(after), wall)) < self._steady:
                self._begin(after, now + self._steady - elapsed)
        elif before.phase != "Running":
            self._begin(after, now + self._steady)

    def _begin(self, run: PodRecord, due: float) -> None:
        self._runs[run.uid] = run
        self._due[run.uid] = due
        heapq.heappush(self._dues, (due, run.uid))

    def _forget(self, uid: str) -> None:
        self._runs.pop(uid, None)
        self._due.pop(uid, None)


def _bad(before: PodRecord, after: PodRecord) -> bool:
    """Return whether a pod failed with this change; a crash that was already counted is not counted again."""
    already_counted = after.crashed is not None and after.crashed == before.crashed
    if after.phase in _BAD and before.phase != after.phase:
        return not already_counted or after.phase == "Unknown"
    if after.crashed != before.crashed:
        return after.crashed is not None
    # The cause of the restart is unknown; a crash was counted when it was reported.
    return after.restarts > before.restarts and after.crashed is None


def _latest(run: PodRecord) -> float | None:
    return max((at for at in (run.bound, run.crashed) if at is not None), default=None)


def _elapsed(since: float | None, wall: float) -> float:
    """Return the elapsed seconds; 0 if the time is unknown or in the future."""
    return max(0.0, wall - since) if since is not None else 0.0


def _outcome(run: PodRecord, reward: int) -> PodOutcome:
    return PodOutcome(run.kind, run.node, reward)
