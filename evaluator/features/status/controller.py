"""Writes the status of each TASPolicy when it has changed."""

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from evaluator.core.cache.policy_pods import NO_PODS, PodCounts
from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube, now
from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.problems import SimilarTo
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.policy_status import Effects, PartsOf, PolicyCondition, no_parts
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.features.status.plan import PolicyStatus, status_of
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

_PAUSE = 1.0
"""Seconds between two rounds of writes: a flapping reading must not load the API server."""
_PODS_PAUSE = 10.0
"""Seconds between two writes of a status of which only the number of pods changes."""


class StatusController:
    """Keeps policy statuses as decided. Call `wake()` after new decisions.

    `status_of` returns the status of a policy in the cluster, empty if unknown; `exists`: whether it is still the one with a uid.
    Writes only while `is_leader()`.
    """

    def __init__(
        self,
        kube: Kube,
        decider: DecisionLoop,
        *,
        effects: Callable[[], Iterable[Effects]] = tuple,
        pods_of: Callable[[Policy], PodCounts] = lambda _policy: NO_PODS,
        similar_to: SimilarTo = lambda _metric: (),
        parts_of: PartsOf = no_parts,
        cause_of: CauseOf = no_cause,
        status_of: Callable[[PolicyKey], Mapping[str, Any]] = lambda _key: {},
        exists: Callable[[PolicyKey, str], bool] = lambda _key, _uid: True,
        is_leader: Callable[[], bool] = lambda: True,
        pause: float = _PAUSE,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        part: Part | None = None,
    ) -> None:
        self._kube = kube
        self._part = part or uncounted("statuses")
        self._decider = decider
        self._effects = effects
        self._pods_of = pods_of
        self._similar_to = similar_to
        self._parts_of = parts_of
        self._cause_of = cause_of
        self._status_of = status_of
        self._exists = exists
        self._is_leader = is_leader
        self._wakeup = WakeUp()
        self._written: dict[PolicyKey, _Write] = {}
        """The last write by policy."""
        self._clock = clock
        self._due = math.inf
        """When the first status is due that was not written because only its number of pods differs."""
        self._transitions: dict[PolicyKey, Transitions] = {}
        self._pause = pause
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)

    def wake(self) -> None:
        """Reconcile soon."""
        self._wakeup.set()

    def pods_changed(self) -> None:
        """Reconcile soon if a status counts pods: that of an observed policy with `deschedule`."""
        if any(
            decision.policy.observed and StrategyName.DESCHEDULE in decision.policy.strategies
            for decision in self._decider.latest.policies.values()
        ):
            self.wake()

    def start_over(self) -> None:
        """This replica became leader: forget earlier writes, another replica may have replaced them."""
        self._written, self._transitions = {}, {}
        self.wake()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        while True:
            await self._wakeup.wait(self._until_due())
            if self._decider.waiting_for or not self._is_leader():
                continue
            failed = await self._write()
            if failed:
                self._wakeup.set()
            else:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next() if failed else self._pause)

    async def _write(self) -> int:
        """Write the statuses that differ from the last write; returns the number of failures."""
        decisions = self._decider.latest
        # start_over() replaces the dict; writes in flight belong to the old one
        written = self._written
        for known in (written, self._transitions):
            for key in known.keys() - decisions.policies.keys():
                del known[key]
        effects = tuple(self._effects())
        for effect in effects:
            with self._part.isolated(type(effect).__name__):
                for _ in effect.catching_up(decisions):
                    await asyncio.sleep(0)
        failed, self._due = 0, math.inf
        for key, decision in decisions.policies.items():
            await asyncio.sleep(0)
            if not self._is_leader():
                break
            if not self._part.is_resting(str(key)):
                with self._part.isolated(str(key)):
                    failed += await self._write_one(decision, decisions.table, effects, written)
        return failed

    async def _write_one(
        self,
        decision: Decision,
        table: MetricTable,
        effects: Sequence[Effects],
        written: dict[PolicyKey, "_Write"],
    ) -> bool:
        """Write the status of a policy if it differs from the last write; return whether that failed."""
        key, uid = decision.policy.key, decision.policy.uid
        sources = self._pods_of, self._similar_to, self._parts_of, self._cause_of
        status = status_of(decision, table, effects, *sources)
        if (due := _due(written.get(key), uid, status)) > self._clock():
            self._due = min(self._due, due)
            return False
        if not self._exists(key, uid):
            return False  # deleted since the decision
        try:
            await self._kube.patch_policy_status(key, self._body(key, uid, status))
        except KubeError as error:
            log.warning("status not written", policy=str(key), error=str(error))
            return error.status != 404  # 404: the policy was deleted
        written[key] = _Write(uid, status, self._clock())
        return False

    def _until_due(self) -> float | None:
        """Return the seconds until the next write; None if none is due or this replica does not write."""
        if self._decider.waiting_for or not self._is_leader():
            return None
        due = None if self._due == math.inf else max(0.0, self._due - self._clock())
        return self._part.until_retry(due)

    def _body(self, key: PolicyKey, uid: str, status: PolicyStatus) -> dict[str, Any]:
        """The status with the last transition time of each condition.

        The time is when this process saw the transition, else the one in the cluster: a restart is no transition.
        """
        past = self._transitions.get(key)
        before = past.since if past and past.uid == uid else transitions(self._status_of(key))
        moment = now()

        def since(condition: PolicyCondition) -> str:
            known, at = before.get(condition.type, ("", ""))
            return at if known == condition.status and at else moment

        after = {c.type: (c.status, since(c)) for c in status.conditions}
        self._transitions[key] = Transitions(uid, after)
        return status.body(since)


class _Write(NamedTuple):
    """A written status. With the uid: a policy recreated under the same name has no status yet."""

    uid: str
    status: PolicyStatus
    at: float


def _due(last: _Write | None, uid: str, status: PolicyStatus) -> float:
    """Return when a status is to be written: now (0), never, or later if only the number of pods differs."""
    if last is None or last.uid != uid:
        return 0.0
    if last.status == status:
        return math.inf
    same = replace(last.status, pods=status.pods) == status
    return last.at + _PODS_PAUSE if same else 0.0


class Transitions(NamedTuple):
    """Condition type → its status and last transition time (RFC 3339), for the policy with this uid."""

    uid: str
    since: Mapping[str, tuple[str, str]]


def transitions(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Condition type → its status and last transition time, from an unvalidated status in the cluster."""
    conditions = status.get("conditions")
    return {
        str(c.get("type")): (str(c.get("status")), str(c.get("lastTransitionTime") or ""))
        for c in (conditions if isinstance(conditions, list) else ())
        if isinstance(c, Mapping)
    }
