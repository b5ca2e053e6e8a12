"""Reads and writes the ConfigMap with the evictions of the last hour: before each eviction, and when a replica becomes leader."""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import NotLeaderError
from evaluator.core.model.names import PolicyKey
from evaluator.features.evictions import journal
from evaluator.features.evictions.history import HOUR, EvictionHistory
from evaluator.features.evictions.journal import JournalError
from plimsoll import logs

log = logs.get(__name__)

_RETRY = 30.0
"""Seconds between two attempts to read or write it."""


class ConfigMaps(Protocol):
    """Reads and writes ConfigMaps. Both methods raise KubeError."""

    async def read_config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The ConfigMap; None if there is none."""
        ...

    async def write_config_map(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create it, or replace the one with the resourceVersion in it; 409 on a concurrent write."""
        ...


class EvictionStore:
    """The stored evictions of one history. `exact`: seconds for which times are stored to the second."""

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
        self.known = self._stored = False
        """Whether the evictions of the last leader are known."""
        self._again_at = self._since = 0.0

    def start_over(self) -> None:
        """This replica became leader: read what the last one stored."""
        self.known = self._stored = False
        self._again_at, self._since = 0.0, self._clock()

    def changed(self) -> None:
        """An eviction happened."""
        self._stored = False

    async def ready(self) -> bool:
        """Return whether all evictions are known and stored, after an attempt if they were not."""
        if self.known and self._stored:
            return True
        if self._clock() < self._again_at:
            return False
        try:
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
        ages, now = self._history.all_done(), self._clock()
        await self._write({key: [now - at for at in times] for key, times in ages.items()})
        self._stored = True

    async def _take_over(self) -> None:
        """Read what the last leader stored, and write it again, which shows how long ago that was."""
        found = await self._kube.read_config_map(self._namespace, journal.NAME)
        self._version = found["metadata"]["resourceVersion"] if found is not None else ""
        if found is not None:
            await self._restore(found)
        self.known = True

    async def _restore(self, found: Mapping[str, Any]) -> None:
        try:
            ages = journal.decode(found)
        except JournalError:
            if self._clock() - self._since < HOUR:
                raise
            return  # whatever it was, it is longer ago than an hour
        elapsed = journal.elapsed(found, await self._write(ages))
        now = self._clock()
        self._history.restore(
            {key: [now - age - elapsed for age in times] for key, times in ages.items()}
        )
        self._history.use_up((), now)  # it is known what the last leader did

    async def _write(self, ages: Mapping[PolicyKey, Iterable[float]]) -> Mapping[str, Any]:
        data = journal.encode(ages, uuid.uuid4().hex, exact=self._exact)
        written = await self._kube.write_config_map(
            journal.body(self._namespace, data, self._version)
        )
        self._version = written["metadata"]["resourceVersion"]
        return written

    def _failed(self, error: Exception) -> None:
        if isinstance(error, KubeError) and error.status == 409:
            self.known = False  # another leader wrote, or it was created meanwhile
        self._again_at = self._clock() + _RETRY
        trouble = f"evictions of the last hour cannot be read or stored ({error}): one pod in --evictPeriod"
        if trouble != self.trouble:
            log.warning("evictions not stored, one pod in a period", error=str(error))
        self.trouble = trouble
