"""Learns from what all pods do, for the scorer `reward`, and keeps what was learned in a ConfigMap.

Every replica learns, since every one is asked by the scheduler, and sees the same pods; the one that leads writes. What
came to pass less than half a minute before all of them end is lost.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Set
from typing import Any, Protocol

from evaluator.kubeapi.transport import KubeError
from evaluator.leader.write_fence import NotLeaderError
from evaluator.model.pod_record import PodRecord
from evaluator.scoring import reward_codec
from evaluator.scoring.outcomes import OutcomeTracker
from evaluator.scoring.reward_codec import StateError
from evaluator.scoring.rewards import PodOutcome, Rewards
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

PAUSE = 30.0
"""Seconds between two writes: what is learned changes with every pod that comes or goes."""
_REST = 1.0
"""Seconds between two looks: what scorers remember of a cluster ends when something was learned."""
_MOST_WAITING = 100_000
"""Outcomes that are kept while what was learned before cannot be read; then the oldest are lost."""


class ConfigMaps(Protocol):
    """Where it is kept. Both raise KubeError."""

    async def read_config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The ConfigMap; None if there is none."""
        ...

    async def write_config_map(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make it, or replace what has the resourceVersion in it; 409 if somebody else was faster."""
        ...


class RewardController:
    """Tell it of pods with `changed`; `rewards` is what was learned by now.

    `nodes` are the names of those that there are, none while that is not known; `is_leader` says whether this replica is the
    one that writes.
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
    ) -> None:
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
        """The resourceVersion to replace; empty where there is nothing yet, None where that has to be looked up."""
        self._next = 0.0
        """When the API server may be asked again."""
        self.rewards = blank
        self._written = blank

    def changed(self, before: PodRecord | None, after: PodRecord | None) -> None:
        """A pod is another than before; None: there is none."""
        now, wall = self._clock(), self._wall()
        self._waiting.extend(self._rewarding.changed(before, after, now=now, wall=wall))

    def start_over(self) -> None:
        """This replica writes from now on; another one may have written meanwhile."""
        self._version = None

    async def run(self) -> None:
        """Learn and write for ever."""
        while True:
            await self.round()
            await asyncio.sleep(_REST)

    async def round(self) -> None:
        """Learn what there is to learn, and write it if that is due."""
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
        after = after.learned(outcomes)
        if after != before:
            self.rewards = after
        if after.dropped > before.dropped:
            log.warning(
                "no room for what was learned of all kinds of pods: the oldest are forgotten",
                kinds=after.dropped - before.dropped,
                left=len(after.kinds),
            )

    async def _load(self) -> None:
        try:
            data = await self._read()
        except KubeError as error:
            self._later("what was learned of pods cannot be read: all nodes are alike", error, 0.0)
            return
        try:
            self.rewards = self._written = reward_codec.decode(data, self.rewards)
        except StateError as error:
            log.warning("what was learned of pods is lost", config_map=self._name, error=str(error))
        self._loaded = True
        self._backoff.reset()
        log.info(
            "learning where pods do well", config_map=self._name, kinds=len(self.rewards.kinds)
        )

    async def _write(self) -> None:
        rewards = self.rewards
        try:
            if self._version is None:
                await self._read()
            meta = {**self._meta, **({"resourceVersion": self._version} if self._version else {})}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
            found = await self._store.write_config_map(
                body | {"data": reward_codec.encode(rewards)}
            )
        except NotLeaderError:
            return
        except KubeError as error:
            self._version = None
            self._later("what was learned of pods is not written", error, PAUSE)
            return
        self._version = str(found.get("metadata", {}).get("resourceVersion", "")) or None
        self._written = rewards
        self._backoff.reset()
        self._next = self._clock() + PAUSE

    async def _read(self) -> Mapping[str, object]:
        """The ConfigMap's data; nothing where there is none."""
        found = await self._store.read_config_map(**self._meta)
        self._version = str(found["metadata"]["resourceVersion"]) if found else ""
        return (found or {}).get("data") or {}

    def _later(self, what: str, error: KubeError, pause: float) -> None:
        delay = max(pause, self._backoff.next(), error.retry_after or 0.0)
        self._next = self._clock() + delay
        log.warning(what, config_map=self._name, error=str(error), delay=round(delay, 2))

    @property
    def _name(self) -> str:
        return "{namespace}/{name}".format(**self._meta)
