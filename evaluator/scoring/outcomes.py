"""What pods did, as outcomes to learn from: 0 for one that failed, 1 for one that has run clean for a while.

One run of a pod gives one reward: when it has ended well, or has lasted for STEADY seconds and is ready; after a crash the
next run begins, and it earns again. A crash, a failure and a node that is silent (phase Unknown) give 0, each once. Who was
told to go is not blamed for how it goes; nor does a pod that ran already when it was first seen earn for what is long past.

kubeRL compares the seconds of the minute of a restart with those of the clock; here time is elapsed time.
"""

import heapq
from collections.abc import Iterator

from evaluator.model.pod_record import PodRecord
from evaluator.scoring.rewards import PodOutcome

STEADY = 300.0
"""Seconds after which a run has been clean. A container that crashes again and again is started every five minutes."""
_BAD = frozenset({"Failed", "Unknown"})


class OutcomeTracker:
    """Follows the runs of pods that have still to earn. Times are monotonic seconds, `wall` the Unix time at that moment."""

    def __init__(self, *, steady: float = STEADY) -> None:
        self._steady = steady
        self._earning: dict[str, PodRecord] = {}
        self._dues: list[tuple[float, str]] = []
        """When to look at whom; soonest first. One that is not in `_earning` is passed over."""
        self._due: dict[str, float] = {}

    def changed(
        self, before: PodRecord | None, after: PodRecord | None, *, now: float, wall: float
    ) -> list[PodOutcome]:
        """What follows from what a pod was and is; None: it was not there, or is not any more."""
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
        """Of those whose runs have become clean by now. Who is not ready is looked at again later."""
        found = []
        while self._dues and self._dues[0][0] <= now:
            at, uid = heapq.heappop(self._dues)
            if self._due.get(uid) != at:
                continue
            run = self._earning[uid]
            if run.ready:
                self._forget(uid)
                found.append(_outcome(run, 1))
            else:
                self._begin(run, now + self._steady)
        return found

    def _run(
        self, before: PodRecord | None, after: PodRecord, now: float, wall: float
    ) -> Iterator[PodOutcome]:
        earning = after.uid in self._earning
        if after.phase == "Succeeded":
            self._forget(after.uid)
            if before is not None and (earning or before.phase in {"", "Pending"}):
                yield _outcome(after, 1)
        elif after.phase != "Running":
            self._forget(after.uid)
        elif earning:
            self._earning[after.uid] = after
        elif before is None:
            if (elapsed := _elapsed(_latest(after), wall)) < self._steady:
                self._begin(after, now + self._steady - elapsed)
        elif before.phase != "Running":
            self._begin(after, now + self._steady)

    def _begin(self, run: PodRecord, due: float) -> None:
        self._earning[run.uid] = run
        self._due[run.uid] = due
        heapq.heappush(self._dues, (due, run.uid))

    def _forget(self, uid: str) -> None:
        self._earning.pop(uid, None)
        self._due.pop(uid, None)


def _bad(before: PodRecord, after: PodRecord) -> bool:
    """Whether a pod has failed since; a crash that was told already is no failure of the pod beside it."""
    told = after.crashed is not None and after.crashed == before.crashed
    if after.phase in _BAD and before.phase != after.phase:
        return not told or after.phase == "Unknown"
    if after.crashed != before.crashed:
        return after.crashed is not None
    # Nobody says why it started anew; if it was by a crash, that was told when it came.
    return after.restarts > before.restarts and after.crashed is None


def _latest(run: PodRecord) -> float | None:
    return max((at for at in (run.bound, run.crashed) if at is not None), default=None)


def _elapsed(since: float | None, wall: float) -> float:
    """Seconds since then; none if that is not known, or a clock goes wrong."""
    return max(0.0, wall - since) if since is not None else 0.0


def _outcome(run: PodRecord, reward: int) -> PodOutcome:
    return PodOutcome(run.kind, run.node, reward)
