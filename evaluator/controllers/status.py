"""Writes each policy's status when it has changed, so that `kubectl get taspolicies` tells what is going on."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evaluator.engine.loop import DecisionLoop
from evaluator.kubeapi.client import Kube, now
from evaluator.kubeapi.transport import KubeError
from evaluator.model.names import PolicyKey
from evaluator.model.node_labels import LabelConflict
from evaluator.plans.conditions import PolicyCondition
from evaluator.plans.status import PolicyStatus, statuses
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

_PAUSE = 1.0
"""Seconds between two rounds of writing: a status is for people, and a flapping reading must not load the API server."""


class StatusController:
    """Keeps statuses as decided. `wake()` after new decisions.

    `said` is the status that a policy has in the cluster, as far as it is known.
    """

    def __init__(
        self,
        kube: Kube,
        decider: DecisionLoop,
        conflicts: Callable[[], Sequence[LabelConflict]],
        *,
        said: Callable[[PolicyKey], Mapping[str, Any]] = lambda _key: {},
        is_leader: Callable[[], bool] = lambda: True,
        pause: float = _PAUSE,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._decider = decider
        self._conflicts = conflicts
        self._said = said
        self._is_leader = is_leader
        self._wake = asyncio.Event()
        self._written: dict[PolicyKey, tuple[str, PolicyStatus]] = {}
        """By policy its uid, since one made anew under its name has no status yet, and what was written."""
        self._transitions: dict[PolicyKey, Transitions] = {}
        self._pause = pause
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)

    def wake(self) -> None:
        """Compare and write soon."""
        self._wake.set()

    def start_over(self) -> None:
        """This replica writes from now on; what it wrote when it last did, another may have replaced."""
        self._written, self._transitions = {}, {}
        self.wake()

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._decider.waiting_for or not self._is_leader():
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
        # start_over() makes another one, and what is on its way then belongs to this one
        written = self._written
        for known in (written, self._transitions):
            for key in known.keys() - decisions.policies.keys():
                del known[key]
        failed = 0
        for key, status in statuses(decisions, self._conflicts()):
            await asyncio.sleep(0)
            if not self._is_leader():
                break
            uid = decisions.policies[key].policy.uid
            if written.get(key) == (uid, status):
                continue
            try:
                await self._kube.patch_policy_status(key, self._body(key, uid, status))
                written[key] = (uid, status)
            except KubeError as error:
                failed += error.status != 404  # the policy went away meanwhile
                log.warning("status not written", policy=str(key), error=str(error))
        return failed

    def _body(self, key: PolicyKey, uid: str, status: PolicyStatus) -> dict[str, Any]:
        """The status with the time of each condition's last transition.

        That is what this process saw of it, and where it saw nothing, what the status in the cluster says: a restart is
        no transition.
        """
        past = self._transitions.get(key)
        before = past.since if past and past.uid == uid else transitions(self._said(key))
        moment = now()

        def since(condition: PolicyCondition) -> str:
            known, at = before.get(condition.type, ("", ""))
            return at if known == condition.status and at else moment

        after = {c.type: (c.status, since(c)) for c in status.conditions}
        self._transitions[key] = Transitions(uid, after)
        return status.body(since)


class Transitions(NamedTuple):
    """Condition → its status, and since when (RFC 3339); of the policy with this uid."""

    uid: str
    since: Mapping[str, tuple[str, str]]


def transitions(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Condition → its status, and since when, as a status in the cluster says; anybody may have written it."""
    conditions = status.get("conditions")
    return {
        str(c.get("type")): (str(c.get("status")), str(c.get("lastTransitionTime") or ""))
        for c in (conditions if isinstance(conditions, list) else ())
        if isinstance(c, Mapping)
    }
