"""Lifts the gates of a gang's pods: after a look at them anew, one patch each, which does nothing to a pod that has changed.

One after the other, as kube-scheduler begins with the first that it gets. It takes longer to place a pod than we to lift a gate.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from evaluator.gangs.core import ungate
from evaluator.gangs.core.podgroup import GangKey, PodGroup, gang_among
from evaluator.gangs.core.types import GangReason, GangRelease
from evaluator.kubeapi.client import Kube
from evaluator.kubeapi.transport import KubeError
from evaluator.metrics import Metrics
from evaluator.model import pod_record
from evaluator.model.decode import UNREADABLE
from evaluator.model.gang_membership import GROUP_LABEL
from evaluator.model.pod_record import PodRecord
from plimsoll import logs, rfc3339

log = logs.get(__name__)

_ATTEMPTS = 3
"""Times that pods are looked at again which changed under our hands."""
_STEP = 50
"""So many pods are read in about a millisecond."""
_NOTHING_LEFT = "a list of its pods of this moment has none that is to go now"
_GONE = 404
_CHANGED = {409, 422}
"""A test of the patch failed: it is another pod, its gates moved; or somebody else wrote first, again and again."""


@dataclass(frozen=True, slots=True)
class UngateResult:
    """What came of a release: the pods whose gates are lifted, and why not those of all: in words, and as the error that it was."""

    pods: tuple[PodRecord, ...] = ()
    why_not: str = ""
    error: KubeError | None = None


class _Found(NamedTuple):
    """A gang as a list has it, and its pods by uid as patches have to know them."""

    gang: PodGroup
    raw: dict[str, ungate.GatedPod]


class Ungater:
    """`count_all`: see Gang. `clock` tells Unix time."""

    def __init__(
        self,
        kube: Kube,
        metrics: Metrics,
        *,
        count_all: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kube = kube
        self._metrics = metrics
        self._count_all = count_all
        self._clock = clock

    async def ungate_pods(self, release: GangRelease) -> UngateResult:
        """Lift the gates of the pods that a release comes to now, in its order. Never raises KubeError."""
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
        """Look, and patch; those whose gates are lifted are added. Returns why it is worth another look, if it is.

        Raises KubeError for what another look would not change.
        """
        found, changed = await self._look(release.gang), None
        for pod in ungate.due(release, found.gang):
            error = await self._patch(pod, found.raw[pod.uid], release.reason)
            result = _result(error)
            self._metrics.gates_lifted.labels(result).inc()
            if error is None:
                lifted.append(pod)
            elif result == "error":
                raise error
            elif not lifted and release.reason is GangReason.ADMITTED:
                return error  # whether the others are still to go, a gang that is whole so far tells anew
            elif result == "changed":
                changed = error
        return changed

    async def _look(self, key: GangKey) -> _Found:
        """A gang as it is at this moment. Raises KubeError."""
        if key.alone:
            listed = await self._kube.list_pods(key.namespace, fields=f"metadata.name={key.name}")
        else:
            listed = await self._kube.list_pods(key.namespace, labels=f"{GROUP_LABEL}={key.name}")
        pods: list[PodRecord] = []
        raw: dict[str, ungate.GatedPod] = {}
        for number, item in enumerate(listed):
            if number % _STEP == 0:
                await asyncio.sleep(0)
            try:
                pod = pod_record.decode(item)
                raw[pod.uid] = ungate.decode(item)
            except UNREADABLE as error:
                log.warning(
                    "a pod that cannot be read is passed over", gang=str(key), error=str(error)
                )
                continue
            pods.append(pod)
        return _Found(gang_among(key, pods, count_all=self._count_all), raw)

    async def _patch(
        self, pod: PodRecord, known: ungate.GatedPod, reason: GangReason
    ) -> KubeError | None:
        # One that is let through says nothing of its gang: the others are not admitted by it.
        at = rfc3339.millis(self._clock()) if reason is not GangReason.OVERDUE else None
        operations = ungate.ungate_patch(known, at)
        try:
            await self._kube.patch_pod(pod.namespace, pod.name, operations)
        except KubeError as error:
            return error
        return None


def _result(error: KubeError | None) -> str:
    if error is None:
        return "ok"
    if error.status == _GONE:
        return "gone"
    return "changed" if error.status in _CHANGED else "error"
