"""Removes the gates of a gang's pods: lists the pods again, then sends one patch per pod that fails if the pod has changed.

Pods are patched in order, since kube-scheduler starts with the first pod it sees; a patch is faster than placing a pod.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import UNREADABLE
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core import labels
from evaluator.features.gangs.core.membership import (
    GatedPod,
    decode_gated,
    ungate_patch,
)
from evaluator.features.gangs.core.podgroup import PodGroup, about, gang_among
from evaluator.features.gangs.core.types import GangReason, GangRelease
from evaluator.features.gangs.metrics import GangMetrics
from plimsoll import logs, rfc3339

log = logs.get(__name__)

_ATTEMPTS = 3
"""Lists of the pods of one release: a patch that fails because its pod has changed needs a new list."""
_STEP = 50
"""Pods decoded between two yields to the event loop: about a millisecond."""
_NOTHING_LEFT = "no pod is to be released by a new list of its pods"
_GONE = 404
_CHANGED = {409, 422}
"""A test of the patch failed (another pod, or its gates changed), or concurrent writes conflicted repeatedly."""


@dataclass(frozen=True, slots=True)
class UngateResult:
    """The result of a release: the ungated pods, and why others were not ungated, as a sentence and as the error."""

    pods: tuple[PodRecord, ...] = ()
    why_not: str = ""
    error: KubeError | None = None


class _Found(NamedTuple):
    """A gang by a new list, and its pods by uid in the form that patches need."""

    gang: PodGroup
    raw: dict[str, GatedPod]


class Ungater:
    """Removes gates. `count_all`: see PodGroup; `clock` returns Unix time."""

    def __init__(
        self,
        kube: Kube,
        metrics: GangMetrics,
        *,
        count_all: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kube = kube
        self._metrics = metrics
        self._count_all = count_all
        self._clock = clock

    async def ungate_pods(self, release: GangRelease) -> UngateResult:
        """Remove the gates of the pods that the release still applies to, in its order. Never raises KubeError."""
        lifted: list[PodRecord] = []
        trouble: KubeError | None = None
        for _ in range(_ATTEMPTS):
            try:
                trouble = await self._ungate_once(release, lifted)
            except KubeError as error:
                return UngateResult(tuple(lifted), str(error), error)
            if trouble is None:
                return UngateResult(tuple(lifted), "" if lifted else _NOTHING_LEFT)
        return UngateResult(tuple(lifted), str(trouble), trouble)

    async def _ungate_once(self, release: GangRelease, lifted: list[PodRecord]) -> KubeError | None:
        """List and patch the pods; append ungated ones to `lifted`. Return the error if a new list may help, else None.

        Raises KubeError for other errors.
        """
        observed, changed = await self._look(release), None
        for pod in release.due(observed.gang):
            error = await self._patch(pod, observed.raw[pod.uid], release.reason)
            if error is None:
                lifted.append(pod)
            elif not lifted and release.reason is GangReason.ADMITTED:
                return (
                    error  # list again: the gang may have changed, and none of it is released yet
                )
            elif error.status != _GONE:
                changed = error
        return changed

    async def _look(self, release: GangRelease) -> _Found:
        """List a gang's pods. Raises KubeError."""
        key, listed = release.gang, await self._list(release)
        pods: list[PodRecord] = []
        raw: dict[str, GatedPod] = {}
        for number, item in enumerate(listed):
            if number % _STEP == 0:
                await asyncio.sleep(0)
            try:
                pod = labels.decode(item)
                if pod.uid in raw:  # it has the label in two spellings
                    continue
                raw[pod.uid] = decode_gated(item)
            except UNREADABLE as error:
                log.warning(
                    "skipping a pod that cannot be decoded", gang=str(key), error=str(error)
                )
                continue
            pods.append(pod)
        return _Found(gang_among(key, pods, count_all=self._count_all), raw)

    async def _list(self, release: GangRelease) -> list[msgspec.Raw]:
        """List by each spelling of the group's label that the pods to release use. Raises KubeError."""
        namespace, name, alone = release.gang
        if alone:
            return await self._kube.list_pods(namespace, fields=f"metadata.name={name}")
        listed: list[msgspec.Raw] = []
        for label in sorted({about(pod).group_label for pod in release.pods}):
            listed += await self._kube.list_pods(namespace, labels=f"{label}={name}")
        return listed

    async def _patch(self, pod: PodRecord, known: GatedPod, reason: GangReason) -> KubeError | None:
        """Return the error if the pod is gone or has changed, else None. Raises KubeError for other errors."""
        # An overdue pod gets no annotation: its gang would count as admitted.
        at = rfc3339.millis(self._clock()) if reason is not GangReason.OVERDUE else None
        operations = ungate_patch(known, at)
        try:
            await self._kube.patch_pod(pod.namespace, pod.name, operations)
        except KubeError as error:
            self._metrics.gates_lifted.labels(_result(error)).inc()
            if _result(error) == "error":
                raise
            return error
        self._metrics.gates_lifted.labels("ok").inc()
        return None


def _result(error: KubeError) -> str:
    if error.status == _GONE:
        return "gone"
    return "changed" if error.status in _CHANGED else "error"
