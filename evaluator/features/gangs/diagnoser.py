"""Finds out why gangs lack pods, one gang at a time.

Polls instead of watching: few gangs lack pods for longer than their controllers take to create them.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import msgspec

from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import UNREADABLE
from evaluator.core.signals import Publish, Signal, unheard
from evaluator.features.gangs.core.controllers import (
    KINDS,
    ControllerEvent,
    ControllerObject,
    PodController,
    last_failure,
)
from evaluator.features.gangs.core.membership import Owner
from evaluator.features.gangs.core.messages import CreateFailure, GangContext, blockers
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup, about
from evaluator.features.gangs.core.types import GangDecisions, GangState
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

T = TypeVar("T")

_FORBIDDEN, _NOT_SERVED = 403, 404
_MAX_CONTROLLERS = 16
"""Controllers read per gang; most gangs have one or two."""


class ClusterAPI(Protocol):
    """The requests to the API server that a ClusterReader makes. All methods raise KubeError."""

    async def read_controller(
        self, api_version: str, resource: str, namespace: str, name: str
    ) -> dict[str, Any] | None:
        """Return a controller of pods; None if it does not exist."""
        ...

    async def list_events_about(self, namespace: str, uid: str) -> list[msgspec.Raw]:
        """Return the events about an object."""
        ...


class ClusterReader:
    """Builds a GangContext. Resources that are forbidden or not served are left out and logged once."""

    def __init__(self, api: ClusterAPI) -> None:
        self._api = api
        self._unreadable: set[str] = set()

    async def read(self, gang: PodGroup) -> GangContext:
        """Return the controllers of a gang and their failures to create pods; empty for a gang of too many controllers.

        Raises KubeError.
        """
        owners = {owner.uid: owner for pod in gang.counting if (owner := about(pod).owner).uid}
        if len(owners) > _MAX_CONTROLLERS:
            return GangContext()
        namespace = gang.key.namespace
        read = [
            (uid, await self._controller(namespace, owner_reference))
            for uid, owner_reference in owners.items()
        ]
        controllers = {uid: controller for uid, controller in read if controller is not None}
        failures = {
            uid: CreateFailure(str(owner), message)
            for uid, owner in owners.items()
            if (message := await self._create_failure(gang, uid, controllers.get(uid)))
        }
        return GangContext(controllers, failures)

    async def _controller(self, namespace: str, owner: Owner) -> PodController | None:
        """Return None for a kind that is not supported or cannot be read."""
        resource = KINDS.get((owner.api_version, owner.kind))
        if resource is None:
            return None
        request = self._api.read_controller(owner.api_version, resource, namespace, owner.name)
        raw = await self._if_allowed(resource, request)
        if raw is None:
            return None if resource in self._unreadable else PodController(owner, None)
        try:
            controller = msgspec.convert(raw, ControllerObject)
        except UNREADABLE as error:
            raise _unreadable(error) from error
        # An object of the same name and another uid is a new controller: the one that owns the pods is gone.
        return PodController(owner, controller if controller.metadata.uid == owner.uid else None)

    async def _create_failure(
        self, gang: PodGroup, uid: str, controller: PodController | None
    ) -> str:
        """Return why a controller that has fewer pods than its limit could not create one; empty if it reported nothing."""
        if controller is not None:
            existing = sum(about(pod).owner.uid == uid for pod in gang.counting)
            if existing >= controller.limit.pods:
                return ""
            if controller.create_failure:
                return controller.create_failure
        # Most controllers report failures in events only.
        request = self._api.list_events_about(gang.key.namespace, uid)
        events = await self._if_allowed("events", request)
        return last_failure(map(_event, events or ()))

    async def _if_allowed(self, resource: str, request: Awaitable[T]) -> T | None:
        """Return None, and log it once, if the resource is forbidden or not served."""
        try:
            response = await request
        except KubeError as error:
            if error.status not in {_FORBIDDEN, _NOT_SERVED}:
                raise
            if resource not in self._unreadable:
                self._unreadable.add(resource)
                log.warning("cannot read why gangs lack pods", resource=resource, error=str(error))
            return None
        self._unreadable.discard(resource)
        return response


def _event(raw: msgspec.Raw) -> ControllerEvent:
    """Decode an Event. Raises KubeError."""
    try:
        return msgspec.json.decode(raw, type=ControllerEvent)
    except UNREADABLE as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> KubeError:
    return KubeError(0, f"unreadable response: {error}")


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


class GangBlockersChanged(Signal, frozen=True):
    """Why some gang lacks pods changed."""


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
        publish: Publish = unheard,
        timings: DiagnosisTimings | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        part: Part | None = None,
    ) -> None:
        self._publish = publish
        self._part = part or uncounted("diagnoses of gangs")
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
        self._diagnoses[key] = replace(self._diagnoses[key], due=now + self._timings.interval)
        with self._part.isolated(str(key)):
            return await self._diagnose(key, gangs[key])
        return self._timings.pause

    async def _diagnose(self, key: GangKey, gang: PodGroup) -> float:
        """Diagnose a gang; return the seconds until the next one."""
        try:
            context = await self._reader.read(gang)
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
            self._publish(GangBlockersChanged())

    def _lacks_pods(self, key: GangKey) -> bool:
        verdict = self._decisions().verdicts.get(key)
        return verdict is not None and verdict.state is GangState.INCOMPLETE
