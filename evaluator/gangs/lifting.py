"""Lifts the gates of a gang's pods: after a look at them anew, one patch each, which does nothing to a pod that has changed."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evaluator import inventory
from evaluator.decoding import UNREADABLE
from evaluator.gangs import gates
from evaluator.gangs.group import Gang, GangKey, gang_among
from evaluator.gangs.membership import GROUP_LABEL
from evaluator.gangs.verdicts import Release
from evaluator.inventory import Resident
from evaluator.kube import Kube, KubeError
from evaluator.metrics import Metrics
from evaluator.timestamps import rfc3339
from plimsoll import logs

log = logs.get(__name__)

_AT_ONCE = 8
"""Patches under way at the same time: more make none of them faster."""
_ATTEMPTS = 3
"""Times that pods are looked at again which changed under our hands."""
_STEP = 50
"""So many pods are read in about a millisecond."""
_NOTHING_LEFT = "a list of its pods of this moment has none that is to go now"
_GONE = 404
_CHANGED = {409, 422}
"""A test of the patch failed: it is another pod, its gates moved; or somebody else wrote first, again and again."""


@dataclass(frozen=True, slots=True)
class Lifting:
    """What came of a release: the pods whose gates are lifted, and why not those of all: in words, and as the error that it was."""

    pods: tuple[Resident, ...] = ()
    why_not: str = ""
    error: KubeError | None = None


class _Found(NamedTuple):
    """A gang as a list has it, and its pods by uid as patches have to know them."""

    gang: Gang
    raw: dict[str, gates.GatedPod]


class _Patched(NamedTuple):
    """What came of the patches of one look."""

    lifted: tuple[Resident, ...] = ()
    changed: KubeError | None = None
    """Of a pod that is worth another look."""
    error: KubeError | None = None


class Lifter:
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

    async def lift(self, release: Release) -> Lifting:
        """Lift the gates of the pods that a release comes to now. Never raises KubeError."""
        lifted: tuple[Resident, ...] = ()
        changed: KubeError | None = None
        for _ in range(_ATTEMPTS):
            try:
                found = await self._look(release.gang)
            except KubeError as error:
                return Lifting(lifted, str(error), error)
            done = await self._patch_all(gates.due(release, found.gang), found.raw)
            lifted, changed = (*lifted, *done.lifted), done.changed
            if done.error is not None:
                return Lifting(lifted, str(done.error), done.error)
            if changed is None:
                return Lifting(lifted, "" if lifted else _NOTHING_LEFT)
        return Lifting(lifted, str(changed), changed)

    async def _look(self, key: GangKey) -> _Found:
        """A gang as it is at this moment. Raises KubeError."""
        if key.alone:
            listed = await self._kube.list_pods(key.namespace, fields=f"metadata.name={key.name}")
        else:
            listed = await self._kube.list_pods(key.namespace, labels=f"{GROUP_LABEL}={key.name}")
        pods: list[Resident] = []
        raw: dict[str, gates.GatedPod] = {}
        for number, item in enumerate(listed):
            if number % _STEP == 0:
                await asyncio.sleep(0)
            try:
                pod = inventory.decode(item)
                raw[pod.uid] = gates.decode(item)
            except UNREADABLE as error:
                log.warning(
                    "a pod that cannot be read is passed over", gang=str(key), error=str(error)
                )
                continue
            pods.append(pod)
        return _Found(gang_among(key, pods, count_all=self._count_all), raw)

    async def _patch_all(
        self, pods: Sequence[Resident], raw: Mapping[str, gates.GatedPod]
    ) -> _Patched:
        """One patch each, some at a time; no more of them after an error that is not of one pod's having changed."""
        found = _Patched()
        for first in range(0, len(pods), _AT_ONCE):
            some = pods[first : first + _AT_ONCE]
            errors = await asyncio.gather(*(self._patch(pod, raw[pod.uid]) for pod in some))
            for pod, error in zip(some, errors, strict=True):
                found = self._counted(found, pod, error)
            if found.error is not None:
                break
        return found

    def _counted(self, found: _Patched, pod: Resident, error: KubeError | None) -> _Patched:
        if error is None:
            result, found = "ok", found._replace(lifted=(*found.lifted, pod))
        elif error.status == _GONE:
            result = "gone"
        elif error.status in _CHANGED:
            result, found = "changed", found._replace(changed=error)
        else:
            result, found = "error", found._replace(error=error)
        self._metrics.gates_lifted.labels(result).inc()
        return found

    async def _patch(self, pod: Resident, known: gates.GatedPod) -> KubeError | None:
        operations = gates.lifting(known, rfc3339(self._clock()))
        try:
            await self._kube.patch_pod(pod.namespace, pod.name, operations)
        except KubeError as error:
            return error
        return None
