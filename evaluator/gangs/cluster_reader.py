"""Reads what is around a gang: some of its pods, what makes them, what became of that, and the quotas of its namespace."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from evaluator.gangs.core.podgroup import PodGroup, about
from evaluator.gangs.diagnosis import create_failures
from evaluator.gangs.diagnosis.controllers import KINDS, Controller, PodController
from evaluator.gangs.diagnosis.create_failures import Event
from evaluator.gangs.diagnosis.diagnose import CreateFailure, GangContext
from evaluator.gangs.diagnosis.quota_usage import Member, Reference
from evaluator.gangs.diagnosis.quotas import Quota
from evaluator.kubeapi.transport import KubeError
from evaluator.model.decode import UNREADABLE
from evaluator.model.pod_record import PodRecord
from plimsoll import logs

log = logs.get(__name__)

T = TypeVar("T")

_FORBIDDEN, _NOT_SERVED = 403, 404
_MOST_SORTS = 16
"""Sorts of pods of one gang that are looked at: a gang has one or two."""


class ClusterAPI(Protocol):
    """What of the API server is needed here. All methods raise KubeError."""

    async def read_pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A pod; None if there is none."""
        ...

    async def read_controller(
        self, api_version: str, resource: str, namespace: str, name: str
    ) -> dict[str, Any] | None:
        """What makes pods; None if there is none."""
        ...

    async def list_quotas(self, namespace: str) -> list[msgspec.Raw]:
        """The ResourceQuotas of a namespace."""
        ...

    async def list_events_about(self, namespace: str, uid: str) -> list[msgspec.Raw]:
        """The events that tell of an object."""
        ...


class ClusterReader:
    """What may not be read, or is not served, is not in a scene; that is told once."""

    def __init__(self, library: ClusterAPI) -> None:
        self._library = library
        self._unread: set[str] = set()

    async def of(self, gang: PodGroup) -> GangContext:
        """What is around a gang now. Raises KubeError."""
        namespace = gang.key.namespace
        pods = await self._pods(gang)
        references = {one.uid: one for pod in pods if (one := pod.controller) is not None}
        makers = await self._makers(namespace, references)
        told = await self._if_allowed("resourcequotas", self._library.list_quotas(namespace))
        quotas = tuple(_decoded(raw, Quota) for raw in told or ())
        refusals = [
            (uid, CreateFailure(str(reference), words))
            for uid, reference in references.items()
            if (words := await self._refused(gang, uid, makers.get(uid)))
        ]
        return GangContext(pods, quotas, makers, dict(refusals))

    async def _pods(self, gang: PodGroup) -> tuple[Member, ...]:
        """One of each sort; those that ask for the same, and are of one controller, come from one template."""
        sorts = {(about(pod).owner.uid, *_asked(pod)): pod for pod in gang.counting}
        if len(sorts) > _MOST_SORTS:
            return ()
        found = [
            await self._if_allowed("pods", self._library.read_pod(pod.namespace, pod.name))
            for pod in sorts.values()
        ]
        return tuple(_converted(pod, Member) for pod in found if pod is not None)

    async def _makers(
        self, namespace: str, references: Mapping[str, Reference]
    ) -> Mapping[str, PodController]:
        makers = [(uid, await self._maker(namespace, one)) for uid, one in references.items()]
        return {uid: maker for uid, maker in makers if maker is not None}

    async def _maker(self, namespace: str, reference: Reference) -> PodController | None:
        """None for one that is of another kind, or cannot be read here."""
        resource = KINDS.get((reference.api_version, reference.kind))
        if resource is None:
            return None
        reading = self._library.read_controller(
            reference.api_version, resource, namespace, reference.name
        )
        raw = await self._if_allowed(resource, reading)
        if raw is None:
            return None if resource in self._unread else PodController(reference, None)
        controller = _converted(raw, Controller)
        namesake = controller.metadata.uid != reference.uid
        return PodController(reference, None if namesake else controller)

    async def _refused(self, gang: PodGroup, uid: str, maker: PodController | None) -> str:
        """What the API server said to a controller that has not as many pods as it is to make; empty if it said nothing."""
        if maker is not None:
            made = sum(about(pod).owner.uid == uid for pod in gang.counting)
            if made >= maker.most.pods:
                return ""
            if maker.refused:
                return maker.refused
        # Most controllers tell in events alone what they could not make.
        listing = self._library.list_events_about(gang.key.namespace, uid)
        told = await self._if_allowed("events", listing)
        return create_failures.last_word(_decoded(raw, Event) for raw in told or ())

    async def _if_allowed(self, resource: str, reading: Awaitable[T]) -> T | None:
        """None where this cannot be read here; that is told once, and gangs are told of what else is found."""
        try:
            found = await reading
        except KubeError as error:
            if error.status not in {_FORBIDDEN, _NOT_SERVED}:
                raise
            if resource not in self._unread:
                self._unread.add(resource)
                log.warning(
                    "cannot look for what keeps gangs from their pods",
                    resource=resource,
                    error=str(error),
                )
            return None
        self._unread.discard(resource)
        return found


def _asked(pod: PodRecord) -> tuple[Any, ...]:
    return pod.requests, pod.others, about(pod).qos


def _decoded(raw: msgspec.Raw, kind: type[T]) -> T:
    """Raises KubeError."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except UNREADABLE as error:
        raise KubeError(0, f"an answer that cannot be read: {error}") from error


def _converted(found: Mapping[str, Any], kind: type[T]) -> T:
    """Raises KubeError."""
    try:
        return msgspec.convert(found, kind)
    except UNREADABLE as error:
        raise KubeError(0, f"an answer that cannot be read: {error}") from error
