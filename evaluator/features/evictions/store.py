"""Reads and writes the ConfigMap with the evictions of the last hour: before evictions, and when a replica becomes leader."""

import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import NotLeaderError
from evaluator.core.model.names import PolicyKey
from evaluator.features.evictions import journal
from evaluator.features.evictions.history import HOUR, EvictionHistory
from evaluator.features.evictions.journal import Journal, JournalError
from plimsoll import logs

log = logs.get(__name__)

_RETRY = 30.0
"""Seconds between two attempts to read or write it."""
_CONFLICT = 409
_RECENT = 5.0
"""Seconds for which a reservation is as good as a new one."""


class ConfigMaps(Protocol):
    """Reads and writes ConfigMaps. Both methods raise KubeError."""

    async def read_config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The ConfigMap; None if there is none."""
        ...

    async def write_config_map(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create it, or replace the one with the resourceVersion in it; 409 on a concurrent write."""
        ...


class EvictionStore:
    """The stored evictions of one history. `exact`: seconds for which times are stored to the second.

    Evictions are reserved in the object before they happen: a leader that is killed between the two leaves one too many there,
    and never one too few.
    """

    def __init__(
        self,
        kube: ConfigMaps,
        namespace: str,
        history: EvictionHistory,
        *,
        exact: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube, self._namespace = kube, namespace
        self._history, self._exact = history, exact
        self._clock = clock
        self.trouble = ""
        """Why evictions are not stored, or those of the last leader not known; empty if all is well."""
        self._version = ""
        self._sent: list[str] = []
        """The writers of writes of which it is not known whether they happened."""
        self.known = self._stored = False
        """Whether the evictions of the last leader are known."""
        self._reserved: Counter[PolicyKey] = Counter()
        self._unstored: list[tuple[PolicyKey, float]] = []
        self._again_at = self._since = 0.0
        self._stored_at = -math.inf
        """When what is reserved was stored."""

    def start_over(self) -> None:
        """This replica became leader: read what the last one stored."""
        self.known = self._stored = False
        self._stored_at = -math.inf
        self._again_at, self._since = 0.0, self._clock()

    def reserve(self, evictions: Mapping[PolicyKey, int]) -> None:
        """So many evictions may happen, by policy; none if the round is over."""
        if evictions != self._reserved:
            self._reserved, self._stored = Counter(evictions), False
            self._stored_at = -math.inf

    def evicted(self, policy: PolicyKey, at: float) -> None:
        """A reserved eviction happened, or may have happened."""
        self._reserved[policy] -= self._reserved[policy] > 0
        self._unstored.append((policy, at))
        self._stored = False

    def changed(self) -> None:
        """The history differs from what is stored."""
        self._stored = False

    @property
    def covers(self) -> bool:
        """Whether what was reserved is stored, and lately: it counts from when it was stored."""
        return self.known and self._clock() - self._stored_at < _RECENT

    @property
    def again_at(self) -> float:
        """When it is worth an attempt again; infinity if there is no trouble."""
        return self._again_at if self.trouble else math.inf

    async def ready(self) -> bool:
        """Return whether all evictions are known and stored, after an attempt if they were not."""
        if self.known and self._stored:
            return True
        if self._clock() < self._again_at:
            return False
        try:
            try:
                await self._bring_up_to_date()
            except KubeError as error:
                if error.status != _CONFLICT:
                    raise
                self.known = False  # another leader wrote, or the answer to a write was lost
                await self._bring_up_to_date()
        except NotLeaderError:
            return False
        except (KubeError, JournalError) as error:
            self._failed(error)
            return False
        if self.trouble:
            log.info("evictions are stored again")
        self.trouble = ""
        return True

    async def _bring_up_to_date(self) -> None:
        """Read what is not known, and write it. Raises KubeError and JournalError."""
        if not self.known:
            await self._take_over()
        now, number = self._clock(), len(self._unstored)
        self._stored = True  # until something changes, also meanwhile
        self._sent.append(uuid.uuid4().hex)
        try:
            await self._write(self._journal(now), self._sent[-1])
        except BaseException:
            self._stored = False
            raise
        self._stored_at = now
        del self._unstored[:number], self._sent[:-1]

    def _journal(self, now: float) -> Journal:
        """Return what is to be stored: evictions that happened, and those that are reserved."""
        ages = {key: [now - at for at in times] for key, times in self._history.all_done().items()}
        left = self._history.all_left().items()
        ages_left = {place: replace(one, at=now - one.at) for place, one in left}
        return Journal(ages, ages_left, +self._reserved)

    async def _take_over(self) -> None:
        """Read what the last leader stored, and write it again, which shows how long ago that was."""
        found = await self._kube.read_config_map(self._namespace, journal.NAME)
        self._version = found["metadata"]["resourceVersion"] if found is not None else ""
        if found is not None:
            await self._restore(found)
        else:
            self._history.use_up(self._clock())  # there was no other leader
        self.known = True

    async def _restore(self, found: Mapping[str, Any]) -> None:
        try:
            stored = journal.decode(found)
        except JournalError:
            if self._clock() - self._since < HOUR:
                raise
            return  # whatever it was, it is longer ago than an hour
        if stored.writer in self._sent:
            return  # it is ours, and the answer was lost: the history has more
        elapsed = journal.elapsed(found, await self._write(stored, uuid.uuid4().hex))
        now = self._clock()
        begin = now - elapsed
        done = {key: [begin - age for age in ages] for key, ages in stored.ages.items()}
        for policy, count in stored.under_way.items():
            done[policy] = [*done.get(policy, ()), *[now] * count]
        for policy, at in self._unstored:
            done.setdefault(policy, []).append(at)
        left = {place: replace(one, at=begin - one.at) for place, one in stored.left.items()}
        self._history.restore(done, left)

    async def _write(self, stored: Journal, writer: str) -> Mapping[str, Any]:
        data = journal.encode(stored._replace(writer=writer), exact=self._exact)
        written = await self._kube.write_config_map(
            journal.body(self._namespace, data, self._version)
        )
        self._version = written["metadata"]["resourceVersion"]
        return written

    def _failed(self, error: Exception) -> None:
        if isinstance(error, KubeError) and error.status == _CONFLICT:
            self.known = False
        self._again_at = self._clock() + _RETRY
        trouble = f"evictions of the last hour cannot be read or stored ({error}): one pod in --evictPeriod"
        if trouble != self.trouble:
            log.warning("evictions not stored, one pod in a period", error=str(error))
        self.trouble = trouble
