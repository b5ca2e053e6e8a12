"""Adds to the history what changed: decisions and actions as they are made, and what the cluster keeps of the time before.

The latter are transition times of conditions of policies, nodes and pods.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.isolation import Part, uncounted
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod
from evaluator.core.page_fields import WrittenFields
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.types import Policy
from evaluator.core.policy.violations import refuses
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.core.signals import Acted, ActionKind, Decided
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
) -> Iterator[Restored | None]:
    """Yield records, in no order, and None between steps. `written`: what features wrote to a node, as pages show it."""
    for policy in policies:
        known = policy.status.get("conditions")
        for condition in known if isinstance(known, list) else ():
            if (found := _of_policy(policy, condition)) is not None:
                yield found
        yield None
    for node in nodes:
        for condition in getattr(written(node), "conditions", ()):  # of another feature
            if (at := rfc3339.parse_or_none(condition.since)) is not None:
                text = f"condition {condition.type}={condition.status} ({condition.reason})"
                yield Restored(at, ActionKind.WRITTEN, node=node.metadata.name, text=text)
        yield None
    for pod in pods:
        if (found := _of_pod(pod)) is not None:
            yield found
        yield None


def _of_policy(policy: Policy, condition: Any) -> Restored | None:
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


def _of_pod(pod: Pod) -> Restored | None:
    """Return when kube-scheduler bound a pod, or reported that our policy refuses nodes to it."""
    if (key := policy_of(pod)) is None:
        return None
    if pod.spec.node_name and (at := rfc3339.parse_or_none(pod.bound_at)) is not None:
        return Restored(at, Kind.PLACED, key, pod.spec.node_name, str(pod))
    failed = pod.failed_attempt
    if failed is None or not refuses(key.name, failed.message):
        return None
    at = rfc3339.parse_or_none(failed.last_transition_time)
    return None if at is None else Restored(at, Kind.REFUSED, key, "", str(pod), failed.message)


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
    """Records changes. `restore` yields what is known from before the start; `clock` is that of the decision loop, `wall` returns Unix seconds."""

    def __init__(
        self,
        history: History,
        series: Series,
        metrics: HistoryMetrics,
        *,
        restore: Callable[[], Iterator[Restored | None]] = _nothing,
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
        for one in self._restore():
            if one is None:
                yield
            elif one.at < now:
                found.append(one)
        for one in sorted(found, key=_time)[-_MOST_RESTORED:]:
            fields = one._asdict()
            self._history.add(fields.pop("kind"), fields.pop("at"), restored=True, **fields)
            yield

    def _record(self, after: Decisions, at: float) -> Iterator[None]:
        before, self._before = self._before, after
        moved: list[Transitions] = []
        for change in changes(before, after, self._causes, self._cause_of, self._part):
            if isinstance(change, Transitions):
                moved.append(change)
            elif isinstance(change, Edit):
                self._history.add_edit(change, at)
            else:
                yield
            if moved and len(moved) + len(moved[-1].moves) > _TOGETHER:
                yield from self._history.add_transitions(moved, at)
                moved.clear()
                yield
        yield from self._history.add_transitions(moved, at)
        yield
        self._history.forget(self._wall())
        self._metrics.size.set(self._history.size + self._series.size)
        self._metrics.records.set(self._history.count)
        self._metrics.dropped.inc(self._history.dropped - self._dropped)
        self._dropped = self._history.dropped

    async def sample(self) -> None:
        """Sample the readings of the newest decisions every few seconds, until cancelled."""
        while True:
            await unhurried(self._series.sample(self._before, self._wall()))
            await asyncio.sleep(_SAMPLES)

    def acted(self, action: Acted) -> None:
        """Record what a feature did."""
        self._history.add_action(action, self._wall())
