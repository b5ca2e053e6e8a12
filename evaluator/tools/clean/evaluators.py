"""Finds the evaluators that may still write to the cluster, and waits for them to end.

A leader writes until it releases its Lease or the Lease expires; a pod may acquire the Lease until it has ended. Only one
namespace is searched: in others, a tenant could create such objects and block the command.
"""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.leader import lease
from evaluator.core.leader.lease import LeaseTimings, ObservedLease, Wait
from evaluator.core.leader.write_fence import clock
from plimsoll.decode import UNREADABLE
from plimsoll.text import printable

PODS = "app.kubernetes.io/name=plimsoll-evaluator"
"""Label selector of the evaluator's pods."""
_TIMINGS = LeaseTimings(duration=15.0, renew_deadline=10.0, retry=2.0)
"""For a Lease without a duration: client-go's defaults."""
_PAUSE = 1.0
"""Seconds between two checks."""
_ENDED = frozenset({"Succeeded", "Failed"})
"""Phases of pods without a running container."""


class StillRunningError(Exception):
    """An evaluator may still write, or it cannot be known; the text says what to do."""


class Evaluators:
    """The pods and the Lease of one installation. `clock` returns seconds."""

    def __init__(
        self, kube: Kube, namespace: str, lease_name: str, *, clock: Callable[[], float] = clock
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._lease_name = lease_name
        self._clock = clock
        self._seen = ObservedLease()

    async def wait(self, timeout: float, report: Callable[[str], None]) -> None:
        """Return when no evaluator can write any more; `report` receives what is waited for, whenever it changes.

        Raises StillRunningError after `timeout` seconds, and KubeError.
        """
        deadline, reported = self._clock() + timeout, ""
        while running := await self.running():
            if self._clock() >= deadline:
                raise StillRunningError(
                    f"nothing was removed: {running} after {timeout:g} s; scale the evaluator to 0 replicas, or raise --timeout"
                )
            if running != reported:
                report(f"waiting: {running}")
                reported = running
            await asyncio.sleep(_PAUSE)

    async def running(self) -> str:
        """Return which pods have not ended and which replica holds the Lease; empty if there is none.

        A holder counts until the Lease has not changed for its duration, seen from here: clocks are never compared. Raises
        StillRunningError if the Lease does not exist, and KubeError.
        """
        pods = await self._kube.list_pods(self._namespace, labels=PODS)
        held = await self._kube.read_lease(self._namespace, self._lease_name)
        name = f"{self._namespace}/{self._lease_name}"
        if held is None:
            raise StillRunningError(
                f"nothing was removed: there is no Lease {name}, so a running evaluator would not be noticed; name the "
                "evaluator's --namespace and --leaseName, or use --no-wait if none runs"
            )
        now = self._clock()
        self._seen = self._seen.read(held, now)
        phrases = [*_running(pods)]
        step = lease.decide(self._seen, "", _TIMINGS, now)
        if isinstance(step, Wait):
            phrases.append(f"{printable(self._seen.holder)} holds the Lease {name}")
        return ", ".join(phrases)


def _running(pods: list[msgspec.Raw]) -> Iterator[str]:
    """Yield a phrase for each pod that has not ended. Raises KubeError."""
    for raw in pods:
        try:
            pod = msgspec.json.decode(raw, type=_Pod)
        except UNREADABLE as error:
            raise KubeError(0, f"unreadable pod: {error}") from error
        if pod.status.phase not in _ENDED:
            state = "is terminating" if pod.metadata.deletion_timestamp else "runs"
            yield f"pod {pod.metadata.name} {state}"


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    deletion_timestamp: str | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)
