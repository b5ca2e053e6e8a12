"""Reads the controllers of a gang's pods, and the events about them, from the API server."""

from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

import msgspec

from evaluator.core.kube.transport import KubeError
from evaluator.features.gangs.core.podgroup import PodGroup, about
from evaluator.features.gangs.diagnosis import create_failures
from evaluator.features.gangs.diagnosis.controllers import KINDS, ControllerObject, PodController
from evaluator.features.gangs.diagnosis.create_failures import ControllerEvent
from evaluator.features.gangs.diagnosis.diagnose import CreateFailure, GangContext
from evaluator.features.gangs.pods.membership import Owner
from plimsoll import logs
from plimsoll.decode import UNREADABLE

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
        return create_failures.last_failure(map(_event, events or ()))

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
