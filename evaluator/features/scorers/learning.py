"""Learns pod outcomes for the scorer `reward` and stores the values in a ConfigMap.

Every replica learns from the same pods, because each answers the scheduler; the leader writes. If all replicas end, the
outcomes of the last half minute are lost.

A run gives the reward 1 once: when it succeeds, or when it has lasted STEADY seconds and is ready. A crash starts a
new run. A crash, a failure and an unresponsive node (phase Unknown) each give 0, once. Pods being deleted give
nothing, nor do pods that were already running when they were first seen.

kubeRL compares the seconds of the minute of a restart with those of the clock; here, elapsed time is used.
"""

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, Protocol

from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import NotLeaderError
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.signals import PodChanged
from evaluator.features.scorers.rewards import (
    PodOutcome,
    Rewards,
    StateError,
    decode_rewards,
    encode_rewards,
)
from plimsoll import logs, rfc3339
from plimsoll.backoff import Backoff

STEADY = 300.0
"""Seconds after which a run counts as clean. The backoff of a crash-looping container is at most five minutes."""
_BAD = frozenset({"Failed", "Unknown"})
PAUSE = 30.0
"""Seconds between two writes: the values change with every pod that starts or ends."""
_REST = 1.0
"""Seconds between two updates: each invalidates the snapshots of scorers."""
_ROUND = "the values"
"""What a round is called in the log."""
_MOST_WAITING = 100_000
"""Outcomes kept while the ConfigMap cannot be read; then the oldest are dropped."""


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
    began = rfc3339.bounded(since, wall)
    return wall - began if began is not None else 0.0


def _outcome(run: PodRecord, reward: int) -> PodOutcome:
    return PodOutcome(run.kind, run.node, reward)


log = logs.get(__name__)


class ConfigMaps(Protocol):
    """Reads and writes ConfigMaps. Both methods raise KubeError."""

    async def read_config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The ConfigMap; None if there is none."""
        ...

    async def write_config_map(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create it, or replace the one with the resourceVersion in it; 409 on a concurrent write."""
        ...


class RewardController:
    """Keeps the learned `rewards` up to date. Call `changed()` with each pod change.

    `nodes` returns the names of all nodes, empty while unknown. Writes only while `is_leader()`.
    """

    def __init__(
        self,
        store: ConfigMaps,
        blank: Rewards,
        nodes: Callable[[], Set[str]],
        *,
        namespace: str,
        name: str,
        is_leader: Callable[[], bool] = lambda: True,
        rewarding: OutcomeTracker | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        part: Part | None = None,
    ) -> None:
        self._part = part or uncounted("rewards")
        self._store = store
        self._meta = {"namespace": namespace, "name": name}
        self._nodes = nodes
        self._is_leader = is_leader
        self._rewarding = rewarding or OutcomeTracker()
        self._clock, self._wall = clock, wall
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)
        self._waiting: deque[PodOutcome] = deque(maxlen=_MOST_WAITING)
        self._loaded = False
        self._version: str | None = None
        """The resourceVersion to replace; empty if there is no ConfigMap yet, None if it must be read first."""
        self._next = 0.0
        """When the next call to the API server is permitted."""
        self.rewards = blank
        self._written = blank

    def changed(self, pod: PodChanged) -> None:
        """Record a pod change."""
        now, wall = self._clock(), self._wall()
        self._waiting.extend(self._rewarding.changed(pod.before, pod.after, now=now, wall=wall))

    def start_over(self) -> None:
        """This replica became leader: another one may have written meanwhile."""
        self._version = None

    async def run(self) -> None:
        """Learn and write until cancelled."""
        while True:
            if not self._part.is_resting(_ROUND):
                with self._part.isolated(_ROUND):
                    await self.round()
            await asyncio.sleep(_REST)

    async def round(self) -> None:
        """Learn the outcomes so far, and write if due."""
        now = self._clock()
        if not self._loaded and now >= self._next:
            await self._load()
        if not self._loaded:
            return
        self._learn(now)
        if self.rewards is not self._written and self._is_leader() and now >= self._next:
            await self._write()

    def _learn(self, now: float) -> None:
        before = self.rewards
        after = before.among(nodes) if (nodes := self._nodes()) else before
        outcomes = [*self._waiting, *self._rewarding.due(now)]
        self._waiting.clear()
        after = self._after(after, outcomes)
        if after != before:
            self.rewards = after
        if after.dropped > before.dropped:
            log.warning(
                "too many kinds of pods: dropped the learned values of the oldest",
                kinds=after.dropped - before.dropped,
                left=len(after.kinds),
            )

    def _after(self, before: Rewards, outcomes: Sequence[PodOutcome]) -> Rewards:
        """Return the rewards after some outcomes; without those that raise."""
        if (after := self._part.run("outcomes", partial(before.learned, outcomes), None)) is None:
            after = before
            for one in outcomes:
                learn = partial(after.learned, [one])
                after = self._part.run(f"outcome of {one.kind} on {one.node}", learn, after)
        return after

    async def _load(self) -> None:
        try:
            data = await self._read()
        except KubeError as error:
            self._later("learned values cannot be read: all nodes score the same", error, 0.0)
            return
        try:
            self.rewards = self._written = decode_rewards(data, self.rewards)
        except StateError as error:
            log.warning(
                "learned values are unreadable and dropped", config_map=self._name, error=str(error)
            )
        self._loaded = True
        self._backoff.reset()
        log.info("learned values loaded", config_map=self._name, kinds=len(self.rewards.kinds))

    async def _write(self) -> None:
        rewards = self.rewards
        try:
            if self._version is None:
                await self._read()
            meta = {**self._meta, **({"resourceVersion": self._version} if self._version else {})}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
            written = await self._store.write_config_map(body | {"data": encode_rewards(rewards)})
        except NotLeaderError:
            return
        except KubeError as error:
            self._version = None
            self._later("learned values not written", error, PAUSE)
            return
        self._version = str(written.get("metadata", {}).get("resourceVersion", "")) or None
        self._written = rewards
        self._backoff.reset()
        self._next = self._clock() + PAUSE

    async def _read(self) -> Mapping[str, object]:
        """The data of the ConfigMap; empty if there is none."""
        config_map = await self._store.read_config_map(**self._meta)
        self._version = str(config_map["metadata"]["resourceVersion"]) if config_map else ""
        return (config_map or {}).get("data") or {}

    def _later(self, what: str, error: KubeError, pause: float) -> None:
        delay = max(pause, self._backoff.next(), error.retry_after or 0.0)
        self._next = self._clock() + delay
        log.warning(what, config_map=self._name, error=str(error), delay=round(delay, 2))

    @property
    def _name(self) -> str:
        return "{namespace}/{name}".format(**self._meta)
