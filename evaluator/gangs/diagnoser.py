"""Asks what keeps gangs from getting the pods that they lack: of one gang after another, again and again.

Nothing is watched for it: gangs that lack pods for longer than it takes to make them are few, and so are the answers.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from evaluator.gangs.cluster_reader import ClusterAPI, ClusterReader
from evaluator.gangs.core.podgroup import GangKey, PodGroup
from evaluator.gangs.core.types import GangDecisions, GangState
from evaluator.gangs.diagnosis.diagnose import GangContext, blockers
from evaluator.kubeapi.transport import KubeError
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class DiagnosisTimings:
    """In seconds. One look is about five short requests."""

    patience: float = 5.0
    """For which a gang may lack pods before it is looked at: controllers need a moment to make them."""
    again: float = 30.0
    """After which it is looked at again."""
    pause: float = 0.25
    """Between two looks."""
    idle: float = 1.0
    """Between two rounds while no gang is due."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found when a gang was last looked at, and when it is to be looked at next."""

    due: float
    obstacles: tuple[str, ...] = ()


class Diagnoser:
    """`obstacles` says what was found of gangs that lack pods by the last decision.

    Asks only while `is_leader()`: one replica decides, and tells of it.
    """

    def __init__(
        self,
        library: ClusterAPI,
        gangs: Callable[[], Mapping[GangKey, PodGroup]],
        outcome: Callable[[], GangDecisions],
        *,
        is_leader: Callable[[], bool],
        pace: DiagnosisTimings | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.listeners: list[Callable[[], None]] = []
        """Told when something else keeps a gang from its pods than before."""
        self._scenes = ClusterReader(library)
        self._gangs = gangs
        self._outcome = outcome
        self._is_leader = is_leader
        self._pace = pace or DiagnosisTimings()
        self._clock = clock
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)
        self._looks: dict[GangKey, _Look] = {}

    def obstacles(self, key: GangKey) -> tuple[str, ...]:
        """Why a gang will not get the pods that it lacks; none where that is not known, or it lacks none."""
        look = self._looks.get(key)
        return look.obstacles if look and self._lacks_pods(key) else ()

    @property
    def obstructed(self) -> int:
        """Gangs that something keeps from their pods."""
        return sum(bool(self.obstacles(key)) for key in self._looks)

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            pause = await self.round()
            await asyncio.sleep(pause)

    async def round(self) -> float:
        """Look at the gang that is due, if one is; returns the seconds until the next round."""
        if not self._is_leader():
            self._looks = {}
            return self._pace.idle
        gangs, verdicts, now = self._gangs(), self._outcome().verdicts, self._clock()
        first = _Look(now + self._pace.patience)
        lacking = (key for key, one in verdicts.items() if one.state is GangState.INCOMPLETE)
        self._looks = {key: self._looks.get(key, first) for key in lacking if key in gangs}
        key = min(self._looks, key=lambda key: self._looks[key].due, default=None)
        if key is None or self._looks[key].due > now:
            return self._pace.idle
        try:
            scene = await self._scenes.of(gangs[key])
        except KubeError as error:
            return self._later(key, error)
        self._backoff.reset()
        self._found(key, scene)
        return self._pace.pause

    def _later(self, key: GangKey, error: KubeError) -> float:
        """What was found before counts until it can be asked again; what is wrong with one gang keeps nobody from others."""
        delay = max(self._backoff.next(), error.retry_after or 0.0)
        self._looks[key] = replace(self._looks[key], due=self._clock() + self._pace.again)
        log.warning(
            "what keeps a gang from its pods cannot be looked at",
            gang=str(key),
            error=str(error),
            delay=round(delay, 2),
        )
        return delay

    def _found(self, key: GangKey, scene: GangContext) -> None:
        gang, before = self._gangs().get(key), self._looks[key].obstacles
        admitted = key in self._outcome().memory.admitted
        found = blockers(gang, scene, admitted=admitted) if gang is not None else ()
        self._looks[key] = _Look(self._clock() + self._pace.again, found)
        if found != before:
            log.debug(
                "what keeps a gang from its pods", gang=str(key), obstacles=list(found) or "none"
            )
            for listener in self.listeners:
                listener()

    def _lacks_pods(self, key: GangKey) -> bool:
        verdict = self._outcome().verdicts.get(key)
        return verdict is not None and verdict.state is GangState.INCOMPLETE
