"""Writes each policy's status when it has changed, so that `kubectl get taspolicies` tells what is going on."""

import asyncio
import random
from collections.abc import Callable, Sequence

from evaluator.decider import Decider
from evaluator.kube import Kube, KubeError, now
from evaluator.labels import Conflict
from evaluator.policy import PolicyKey
from evaluator.status import Status, statuses
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

_PAUSE = 1.0
"""Seconds between two rounds of writing: a status is for people, and a flapping reading must not load the API server."""


class Reporter:
    """Keeps statuses as decided. `wake()` after new decisions."""

    def __init__(
        self,
        kube: Kube,
        decider: Decider,
        conflicts: Callable[[], Sequence[Conflict]],
        *,
        allowed: Callable[[], bool] = lambda: True,
        pause: float = _PAUSE,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._decider = decider
        self._conflicts = conflicts
        self._allowed = allowed
        self._wake = asyncio.Event()
        self._written: dict[PolicyKey, tuple[str, Status]] = {}
        """By policy its uid, since one made anew under its name has no status yet, and what was written."""
        self._transitions: dict[PolicyKey, tuple[bool | None, str]] = {}
        self._pause = pause
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)

    def wake(self) -> None:
        """Compare and write soon."""
        self._wake.set()

    def start_over(self) -> None:
        """This replica writes from now on; what it wrote when it last did, another may have replaced."""
        self._written.clear()
        self.wake()

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._decider.waiting_for or not self._allowed():
                continue
            failed = await self._write()
            if failed:
                self._wake.set()
            else:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next() if failed else self._pause)

    async def _write(self) -> int:
        """Write what differs from what was last written; returns how many failed."""
        decisions = self._decider.latest
        wanted = statuses(decisions, self._conflicts())
        self._written = {key: old for key, old in self._written.items() if key in wanted}
        failed = 0
        for key, status in wanted.items():
            if not self._allowed():
                break
            uid = decisions.policies[key].policy.uid
            if self._written.get(key) == (uid, status):
                continue
            try:
                await self._kube.patch_policy_status(key, status.body(self._since(key, status)))
                self._written[key] = (uid, status)
            except KubeError as error:
                failed += error.status != 404  # the policy went away meanwhile
                log.warning("status not written", policy=str(key), error=str(error))
        return failed

    def _since(self, key: PolicyKey, status: Status) -> str:
        """When the policy became valid or invalid, as far as this process has seen it."""
        valid, at = self._transitions.get(key, (None, ""))
        if valid is not (not status.problems):
            at = now()
            self._transitions[key] = (not status.problems, at)
        return at
