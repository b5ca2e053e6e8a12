"""Adds to the history what changed: decisions and actions as they are made, and what the cluster keeps of the time before.

The latter are transition times of conditions of policies, nodes and pods.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.isolation import Part, uncounted
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod
from evaluator.core.page_fields import WrittenFields
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.types import Policy
from evaluator.core.policy.violations import refuses
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.core.signals import ActionKind, Decided
from evaluator.features.history.history import History
from evaluator.features.history.plan import Causes, Edit, Transitions, changes
from evaluator.features.history.records import Kind
from evaluator.features.history.series import Series
from plimsoll import rfc3339
from plimsoll.http.pieces import unhurried


class Restored(NamedTuple):
    """A record from before the start; `at` is Unix seconds."""

    at: float
    kind: str
    policy: PolicyKey | None = None
    node: str = ""
    pod: str = ""
    text: str = ""


def restored(
    policies: Iterable[Policy],
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    written: Callable[[Node], WrittenFields],
    guard: Guard = UNGUARDED,
) -> Iterator[Restored | None]:
    """Yield records, in no order, and None between steps. `written`: what features wrote to a node, as pages show it.

    `guard` takes what one object raises.
    """
    nothing: Sequence[Restored] = ()
    for policy in policies:
        yield from guard.run(str(policy.key), partial(_of_policy, policy), nothing)
        yield None
    for node in nodes:
        yield from guard.run(node.metadata.name, partial(_of_node, node, written), nothing)
        yield None
    for pod in pods:
        yield from guard.run(str(pod), partial(_of_pod, pod), nothing)
        yield None


def _of_policy(policy: Policy) -> Sequence[Restored]:
    """Return when the conditions of a policy's status changed."""
    known = policy.status.get("conditions")
    found = (_of_condition(policy, one) for one in (known if isinstance(known, list) else ()))
    return [one for one in found if one is not None]


def _of_node(node: Node, written: Callable[[Node], WrittenFields]) -> Sequence[Restored]:
    """Return when our conditions of a node changed."""
    found = []
    for condition in getattr(written(node), "conditions", ()):  # of another feature
        if (at := rfc3339.parse_or_none(condition.since)) is not None:
            text = f"condition {condition.type}={condition.status} ({condition.reason})"
            found.append(Restored(at, ActionKind.WRITTEN, node=node.metadata.name, text=text))
    return found


def _of_condition(policy: Policy, condition: Any) -> Restored | None:
    """Return when a condition of a policy's status changed; others may have written anything there."""
    if not isinstance(condition, dict):
        return None
    texts = [condition.get(name) for name in ("type", "status", "message", "lastTransitionTime")]
    if not all(isinstance(text, str) for text in texts):
        return None
    kind, status, message, since = texts
    if (at := rfc3339.parse_or_none(since)) is None:
        return None
    return Restored(at, Kind.POLICY, policy.key, text=f"condition {kind}={status}: {message}")


def _of_pod(pod: Pod) -> Sequence[Restored]:
    """Return when kube-scheduler bound a pod, or reported that our policy refuses nodes to it."""
    if (key := policy_of(pod)) is None:
        return ()
    if pod.spec.node_name and (at := rfc3339.parse_or_none(pod.bound_at)) is not None:
        return (Restored(at, Kind.PLACED, key, pod.spec.node_name, str(pod)),)
    failed = pod.failed_attempt
    if failed is None or not refuses(key.name, failed.message):
        return ()
    at = rfc3339.parse_or_none(failed.last_transition_time)
    return () if at is None else (Restored(at, Kind.REFUSED, key, "", str(pod), failed.message),)


class HistoryMetrics:
    """The metrics of the history."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.size = Gauge(
            "plimsoll_history_size_bytes", "Memory that the history takes.", registry=registry
        )
        self.records = Gauge("plimsoll_history_records", "Records kept.", registry=registry)
        self.dropped = Counter(
            "plimsoll_history_dropped_records",
            "Records dropped because of --historySize or --historyAge.",
            registry=registry,
        )
        self.writes = Counter(
            "plimsoll_history_writes",
            "Writes of actions to the Secret plimsoll-history by result: ok, conflict or error.",
            ["result"],
            registry=registry,
        )
        self.unreadable = Counter(
            "plimsoll_history_unreadable",
            "Keys and lines of the Secret plimsoll-history that could not be read.",
            registry=registry,
        )


_TOGETHER = 200
"""Transitions added together."""
_MOST_RESTORED = 5_000
"""Records from before the start."""
_SAMPLES = 5.0
"""Seconds between two samples of the readings: twelve for each minute of a series."""

Clock = Callable[[], float]


def _time(one: Restored) -> float:
    return one.at


def _nothing() -> Iterator[Restored | None]:
    """Restore nothing."""
    yield from ()


class Recorder:
    """Records changes. `restore` yields what is known from before the start, of which actions since `actions_before` (Unix seconds) are known otherwise; `clock` is that of the decision loop, `wall` returns Unix seconds."""

    def __init__(
        self,
        history: History,
        series: Series,
        metrics: HistoryMetrics,
        *,
        restore: Callable[[], Iterator[Restored | None]] = _nothing,
        actions_before: Callable[[], float] = lambda: math.inf,
        cause_of: CauseOf = no_cause,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
        part: Part | None = None,
    ) -> None:
        self._part = part or uncounted("history")
        self._history = history
        self._series = series
        self._metrics = metrics
        self._dropped = 0
        self._clock, self._wall = clock, wall
        self._restore = restore
        self._actions_before = actions_before
        self._cause_of = cause_of
        self._before = Decisions()
        self._causes = Causes()
        self._waiting: deque[tuple[Decisions, float]] = deque()
        self._busy = False
        self._restored = False

    def decided(self, decided: Decided) -> Iterator[None]:
        """Record what changed, in steps. Decisions made between these steps are recorded after them, in their order."""
        self._waiting.append((decided.decisions, self._wall() - (self._clock() - decided.at)))
        if self._busy:
            return
        self._busy = True
        try:
            while self._waiting:
                after, at = self._waiting.popleft()
                if not self._restored:
                    self._restored = True
                    yield from self._restoring(at)
                yield from self._record(after, at)
        finally:
            self._busy = False

    def _restoring(self, now: float) -> Iterator[None]:
        """Add records from before the start, before all others, the newest if there are many."""
        found: list[Restored] = []
        kinds, since = self._history.action_kinds, min(now, self._actions_before())
        for one in self._restore():
            if one is None:
                yield
            elif one.at < (since if one.kind in kinds else now):
                found.append(one)
        for one in sorted(found, key=_time)[-_MOST_RESTORED:]:
            fields = one._asdict()
            with self._part.isolated(f"record of {one.policy or one.node}"):
                self._history.add(fields.pop("kind"), fields.pop("at"), restored=True, **fields)
            yield

    def _record(self, after: Decisions, at: float) -> Iterator[None]:
        before, self._before = self._before, after
        moved: list[Transitions] = []
        for change in changes(before, after, self._causes, self._cause_of, self._part):
            if isinstance(change, Transitions):
                moved.append(change)
            elif isinstance(change, Edit):
                with self._part.isolated(f"edit of {change.policy.key}"):
                    self._history.add_edit(change, at)
            else:
                yield
            if moved and len(moved) + len(moved[-1].moves) > _TOGETHER:
                yield from self._history.add_transitions(moved, at, self._part)
                moved.clear()
                yield
        yield from self._history.add_transitions(moved, at, self._part)
        yield
        self._history.forget(self._wall())
        self._metrics.size.set(self._history.size + self._series.size)
        self._metrics.records.set(self._history.count)
        self._metrics.dropped.inc(self._history.dropped - self._dropped)
        self._dropped = self._history.dropped

    async def sample(self) -> None:
        """Sample the readings of the newest decisions every few seconds, until cancelled."""
        while True:
            await unhurried(self._series.sample(self._before, self._wall(), self._part))
            await asyncio.sleep(_SAMPLES)
