"""Finds out why gangs lack pods, one gang at a time.

Polls instead of watching: few gangs lack pods for longer than their controllers take to create them.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from evaluator.core.kube.transport import KubeError
from evaluator.features.gangs.cluster_reader import ClusterAPI, ClusterReader
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup
from evaluator.features.gangs.core.types import GangDecisions, GangState
from evaluator.features.gangs.diagnosis.diagnose import GangContext, blockers
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class DiagnosisTimings:
    """In seconds. One diagnosis takes about two short requests per controller."""

    grace: float = 5.0
    """How long a gang may lack pods before its first diagnosis: controllers need a moment to create them."""
    interval: float = 30.0
    """Between two diagnoses of one gang."""
    pause: float = 0.25
    """Between two diagnoses of different gangs."""
    idle: float = 1.0
    """Between two checks while no gang is due."""


@dataclass(frozen=True, slots=True)
class _Diagnosis:
    """The last result for a gang, and when the next is due (clock of the Diagnoser)."""

    due: float
    blockers: tuple[str, ...] = ()


class Diagnoser:
    """Keeps the reasons why gangs lack pods, for the gangs that are Incomplete by the last decisions.

    Requests are made only while `is_leader()`.
    """

    def __init__(
        self,
        api: ClusterAPI,
        gangs: Callable[[], Mapping[GangKey, PodGroup]],
        decisions: Callable[[], GangDecisions],
        *,
        is_leader: Callable[[], bool],
        timings: DiagnosisTimings | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.listeners: list[Callable[[], None]] = []
        """Called when the blockers of some gang have changed."""
        self._reader = ClusterReader(api)
        self._gangs = gangs
        self._decisions = decisions
        self._is_leader = is_leader
        self._timings = timings or DiagnosisTimings()
        self._clock = clock
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)
        self._diagnoses: dict[GangKey, _Diagnosis] = {}

    def blockers(self, key: GangKey) -> tuple[str, ...]:
        """Return why the gang's missing pods are not created; empty if that is unknown or none are missing."""
        diagnosis = self._diagnoses.get(key)
        return diagnosis.blockers if diagnosis and self._lacks_pods(key) else ()

    def count_blocked(self) -> int:
        """Return the number of gangs with blockers."""
        return sum(bool(self.blockers(key)) for key in self._diagnoses)

    async def run(self) -> None:
        """Diagnose gangs until cancelled."""
        while True:
            delay = await self.run_once()
            await asyncio.sleep(delay)

    async def run_once(self) -> float:
        """Diagnose the gang that is due, if any; return the seconds until the next call."""
        if not self._is_leader():
            self._diagnoses = {}
            return self._timings.idle
        gangs, verdicts, now = self._gangs(), self._decisions().verdicts, self._clock()
        first = _Diagnosis(now + self._timings.grace)
        lacking = (
            key for key, verdict in verdicts.items() if verdict.state is GangState.INCOMPLETE
        )
        self._diagnoses = {key: self._diagnoses.get(key, first) for key in lacking if key in gangs}
        key = min(self._diagnoses, key=lambda key: self._diagnoses[key].due, default=None)
        if key is None or self._diagnoses[key].due > now:
            return self._timings.idle
        try:
            context = await self._reader.read(gangs[key])
        except KubeError as error:
            return self._postpone(key, error)
        self._backoff.reset()
        self._update(key, context)
        return self._timings.pause

    def _postpone(self, key: GangKey, error: KubeError) -> float:
        """Keep the last result. The gang's next turn comes after `interval`, so that its error does not block others."""
        delay = max(self._backoff.next(), error.retry_after or 0.0)
        due = self._clock() + self._timings.interval
        self._diagnoses[key] = replace(self._diagnoses[key], due=due)
        log.warning(
            "cannot read why a gang lacks pods",
            gang=str(key),
            error=str(error),
            delay=round(delay, 2),
        )
        return delay

    def _update(self, key: GangKey, context: GangContext) -> None:
        gang, before = self._gangs().get(key), self._diagnoses[key].blockers
        admitted = key in self._decisions().memory.admitted
        blockers_now = blockers(gang, context, admitted=admitted) if gang is not None else ()
        self._diagnoses[key] = _Diagnosis(self._clock() + self._timings.interval, blockers_now)
        if blockers_now != before:
            log.debug("why a gang lacks pods", gang=str(key), blockers=list(blockers_now) or "none")
            for listener in self.listeners:
                listener()

    def _lacks_pods(self, key: GangKey) -> bool:
        verdict = self._decisions().verdicts.get(key)
        return verdict is not None and verdict.state is GangState.INCOMPLETE
