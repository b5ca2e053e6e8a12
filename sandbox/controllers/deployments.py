"""The controller of Deployments and ReplicaSets: keeps the number of pods and rolls out templates.

The API server deletes the dependents of deleted owners.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import assert_never

import aiohttp

from plimsoll import logs
from plimsoll.wakeup import WakeUp
from sandbox.client.client import ApiError, Client
from sandbox.client.informer import Informer, following
from sandbox.client.objects import DEPLOYMENTS, PODS, REPLICASETS, Object, ObjectKind
from sandbox.controllers import replicas
from sandbox.controllers.replicas import (
    Action,
    CreatePods,
    CreateReplicaSet,
    DeletePod,
    Scale,
    Seen,
    WriteStatus,
)

log = logs.get(__name__)

_RETRY = 1.0
_RACES = {404, 409}  # a conflict: the next reconciliation sees the change


class Deployments:
    """Watches wake it; each reconciliation lists anew, so that a stale copy never creates a pod twice."""

    def __init__(
        self,
        client: Client,
        *,
        rng: random.Random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._rng = rng
        self._clock = clock
        self._wakeup = WakeUp()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        watched = (DEPLOYMENTS, REPLICASETS, PODS)
        async with following(
            *(Informer(self._client, resource, self._changed) for resource in watched)
        ):
            while True:
                await self._wakeup.wait()
                try:
                    await self.reconcile()
                except (ApiError, aiohttp.ClientError, OSError) as error:
                    log.warning("not reconciled, trying again", error=str(error))
                    await asyncio.sleep(_RETRY)
                    self._wakeup.set()

    async def reconcile(self) -> None:
        """Reconcile once."""
        pods = (await self._client.list(PODS)).items
        sets = (await self._client.list(REPLICASETS)).items
        deployments = (await self._client.list(DEPLOYMENTS)).items
        for action in replicas.plan(Seen(deployments, sets, pods), now=self._clock()):
            try:
                await self._do(action)
            except ApiError as error:
                if error.status not in _RACES:
                    raise
                self._wakeup.set()

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self._wakeup.set()

    async def _do(self, action: Action) -> None:
        match action:
            case CreateReplicaSet(body):
                await self._client.create(REPLICASETS, body)
            case Scale(replica_set, count):
                await self._patch(REPLICASETS, replica_set, {"spec": {"replicas": count}})
            case CreatePods(replica_set, count):
                for _ in range(count):
                    suffix = "".join(self._rng.choices(replicas.ALPHABET, k=5))
                    await self._client.create(PODS, replicas.pod_of(replica_set, suffix))
            case DeletePod(pod):
                meta = pod["metadata"]
                await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
            case WriteStatus(resource, owner, status):
                await self._patch(resource, owner, {"status": status}, subresource="status")
            case _:
                assert_never(action)

    async def _patch(
        self, resource: ObjectKind, obj: Object, body: Object, *, subresource: str = ""
    ) -> None:
        meta = obj["metadata"]
        body = {**body, "metadata": {"uid": meta["uid"]}}
        await self._client.patch(
            resource, meta["name"], body, meta["namespace"], subresource=subresource
        )
