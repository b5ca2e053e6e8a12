"""The decision loop: runs decide() after changes and when readings become stale, swaps the result, publishes it."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.isolation import Isolation
from evaluator.core.loop.followers import PolicyGauges, log_changes, release
from evaluator.core.loop.subscription import (
    AllExtraMetrics,
    ExtraMetrics,
    SimilarMetrics,
    Subscriptions,
)
from evaluator.core.metrics import Metrics
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.node_index import Mask, NodeIndex
from evaluator.core.policy.decide import (
    Decisions,
    Holds,
    NotReadyError,
    WithoutDeparted,
    as_read,
    deciding,
)
from evaluator.core.policy.limits import (
    MOST_METRICS,
    MOST_RULES,
    LimitedReadings,
    RuleLimit,
    limit_metrics,
)
from evaluator.core.policy.types import Policy
from evaluator.core.readings.merged import Readings
from evaluator.core.readings.node_conditions import reported
from evaluator.core.readings.peer_metrics import base_metric
from evaluator.core.readings.peer_readings import PeerColumns, PeerReadings
from evaluator.core.readings.peers import LabelGroups
from evaluator.core.signals import (
    Decided,
    KindListed,
    NodeLabelsChanged,
    NodeSetChanged,
    PolicyChanged,
    Reaction,
    SourcePolled,
    WatchResumed,
    on_node,
    wakes,
)
from plimsoll.pace import Pace, sliced
from plimsoll.steps import Steps, finished
from plimsoll.text import counted
from plimsoll.wakeup import WakeUp

_PAUSE = 0.005
"""Seconds between two evaluations, so that a burst of reports is evaluated together."""

_LATE = 1.0
"""Seconds past `valid_until` after which decisions are not served: the process was suspended and got no reports."""

_SLICE = 0.001
"""Seconds of work before the loop yields to the event loop for as long: kube-scheduler may be waiting."""
_POLITE = 0.01
"""Most seconds that a slice waits while requests of kube-scheduler are in progress."""
_REST = 15
"""Pause after an evaluation, as a multiple of its duration; limits the loop to about 6 % of a core."""
_LONGEST_REST = 0.06
"""Seconds; a change takes effect within 0.1 s however long an evaluation takes."""

_NEW_METRICS = 10
"""Metrics that the readings are subscribed to at a time: a millisecond with 5,000 nodes."""

_POLICIES = 500
"""Policies whose metrics are collected at a time."""

_FOREVER = 1e9

Records = Callable[[Node], Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class DecisionParts:
    """What a feature adds to decisions; that of several features adds up."""

    layer: Callable[[Readings], Readings] | None = None
    """Adds columns of metrics that are not measured to the readings. Layers have different metrics, so any order will do."""
    required: frozenset[str] = frozenset()
    """Metrics that are always requested from sources, before those of policies."""
    extra: ExtraMetrics | None = None
    """Metrics that are requested from sources beside those of policies."""
    holds: Holds | None = None
    """Returns the nodes that stay in violation of a policy although no rule matches; those of all features stay."""
    records: Records | None = None
    """Returns what the feature wrote to a node that shows, after a restart, that the node violated a policy."""


class DecisionLoop:
    """Owns the current decisions. `touch()` requests an evaluation; publishes `Decided` after each swap."""

    def __init__(
        self,
        cluster: ClusterCache,
        store: Readings,
        subscriptions: Subscriptions,
        metrics: Metrics,
        *,
        most_metrics: int = MOST_METRICS,
        most_rules: int = MOST_RULES,
        namespace_metrics: int | None = None,
        namespace_rules: int | None = None,
        similar: SimilarMetrics | None = None,
        without_departed: WithoutDeparted = as_read,
        isolation: Isolation | None = None,
        slice_: float = _SLICE,
        polite: float = _POLITE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._most_metrics = most_metrics
        self._namespace_metrics = namespace_metrics
        self._rules = RuleLimit(most_rules, namespace_rules)
        self.similar = similar or SimilarMetrics()
        self.extra = AllExtraMetrics()
        """Metrics that are requested from sources beside those of policies."""
        self._required = frozenset[str]()
        self._records: list[Records] = [_own_labels]
        self._without_departed = without_departed
        self._holds: list[Holds] = []
        self._signals = cluster.signals
        self._stuck = isolation.stuck if isolation is not None else tuple
        self._part: Guard = isolation.part("decisions") if isolation is not None else UNGUARDED
        self._pace = Pace(slice_, wait=self._until_answered)
        self._gauges = PolicyGauges(metrics, self._part)
        self._clock = clock
        self._decisions = Decisions()
        self._subscribed = frozenset[str]()
        self._decided = clock()
        self._wakeup = WakeUp()
        self._waiting_for: Sequence[str] = ("a first evaluation",)
        self._stopping: Sequence[str] = ()
        self._polite = polite
        self._is_busy: Callable[[], bool] = lambda: False
        self._groups = LabelGroups(self._labels_on)
        self._peers = PeerColumns(self._groups)
        metrics.ready.set_function(self.is_ready)

    def reactions(self) -> Iterable[Reaction]:
        """Return what makes decisions old: changes of the cluster and of readings."""
        yield from wakes(
            self.touch, PolicyChanged, KindListed, NodeSetChanged, WatchResumed, SourcePolled
        )
        yield on_node(NodeLabelsChanged, self.regroup)

    def extend(self, parts: DecisionParts) -> None:
        """Add what a feature adds to decisions; before the first evaluation."""
        if parts.layer is not None:
            self._store = parts.layer(self._store)
        self._required |= parts.required
        if parts.extra is not None:
            self.extra.add(parts.extra)
        if parts.holds is not None:
            self._holds.append(parts.holds)
        if parts.records is not None:
            self._records.append(parts.records)

    @property
    def waiting_for(self) -> Sequence[str]:
        """Why this replica is not ready: missing inputs, shutdown, stale watches, or a part in which everything fails.

        With stale watches, decisions are still served, and nothing is written.
        """
        return (
            self._stopping
            or self.missing
            or self._cluster.staleness.stale(self._clock())
            or self._stuck()
        )

    @property
    def missing(self) -> Sequence[str]:
        """The inputs without which there are no decisions yet."""
        return self._cluster.waiting_for or self._waiting_for

    @property
    def stopping(self) -> Sequence[str]:
        """Why this replica stops; empty if it does not."""
        return self._stopping

    @property
    def latest(self) -> Decisions:
        """The current decisions, even if not ready (for `/explain`)."""
        return self._decisions

    def is_ready(self) -> bool:
        """Return whether this replica has decisions that may be used."""
        return not self.waiting_for

    def readings(self) -> AbstractContextManager[Readings]:
        """Return the readings as they are now; they may be newer than the current decisions."""
        readings = PeerReadings(self._store, self._peers)
        return readings.snapshot(self._decisions.table.nodes)

    def current(self) -> Decisions:
        """Return the current decisions, evaluating first if they have expired (the process was suspended).

        Raises:
            NotReadyError: inputs are missing.
        """
        if self.missing:
            raise NotReadyError(f"not ready: waiting for {', '.join(self.missing)}")
        if self._is_late(self._clock()):
            self.evaluate()
        return self._decisions

    def _is_late(self, now: float) -> bool:
        return now > self._decisions.valid_until + _LATE

    def stop(self, why: str) -> None:
        """Report not ready from now on, so that no new requests are routed here; requests in progress are answered."""
        self._stopping = (why,)

    def give_way(self, is_busy: Callable[[], bool]) -> None:
        """Pause evaluations while `is_busy()` returns True: a request is in progress."""
        self._is_busy = is_busy

    def touch(self) -> None:
        """Request an evaluation soon."""
        self._wakeup.set()

    async def run(self) -> None:
        """Evaluate until cancelled: after each change, and when decisions expire."""
        while True:
            wait = self._decisions.valid_until - self._clock()
            await self._wakeup.wait(max(0.0, wait) + _PAUSE if wait < _FOREVER else None)
            await self._until_answered()
            worked = 0.0
            if not self._cluster.waiting_for:
                worked = (await sliced(self._evaluation(), self._pace)).seconds
            await asyncio.sleep(max(_PAUSE, min(_REST * worked, _LONGEST_REST)))

    async def _until_answered(self) -> None:
        """Wait while a request is in progress: each of its loop iterations would otherwise wait for a slice."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._polite
        while self._is_busy() and loop.time() < deadline:  # noqa: ASYNC110 (a notification would slow the request)
            await asyncio.sleep(_SLICE)

    def evaluate(self) -> None:
        """Evaluate now, swap the result and publish it."""
        finished(self._evaluation())

    def _evaluation(self) -> Steps[None]:
        """Evaluate in steps; inputs are taken in the first step."""
        before = self._decisions
        policies = list(self._cluster.policies.objects.values())
        limited = self._rules.limited(policies)
        named: tuple[dict[PolicyKey, frozenset[str]], ...] = {}, {}
        for number, policy in enumerate(limited, 1):
            named[policy.observed][policy.key] = policy.measured_metrics
            if number % _POLICIES == 0:
                yield
                if self._decisions is not before:
                    return
        limit = limit_metrics(
            named[0],
            self._most_metrics,
            observed=named[1],
            always=self._required,
            served=self.extra.wanted,
            quota=self._namespace_metrics,
        )
        # First the rows, then the columns: the other way round, the columns would be moved.
        self._store.prune(self._cluster.nodes.objects, self._clock())
        for _ in self._subscribe(limit.requested):
            yield
            if self._decisions is not before:
                return  # another evaluation ran meanwhile, and may have subscribed to other metrics
        if self._subscriptions.want(reported(limit.requested)):
            self.similar.subscribed(limit.requested)
        now = self._clock()
        if self._is_late(now):
            self._store.resume(self._decided, now)
        decisions = yield from self._timed(
            deciding(
                limited,
                self._cluster.names,
                LimitedReadings(self._store, limit.left_out),
                now=now,
                before=before,
                labels_of=self._labels_of,
                peers=self._peers,
                without_departed=self._without_departed,
                holds=self._held if self._holds else None,
                guard=self._part,
            )
        )
        if self._decisions is not before:
            return  # current() evaluated meanwhile; its result is newer
        self._decisions, self._decided = decisions, now
        if self._waiting_for:
            self._waiting_for = waiting_for(self._cluster, decisions)
        self._metrics.left_out.set(len(limit.left_out))
        self.extra.update((policy.metrics for policy in limited), _without(limited, limit.left_out))
        self._metrics.rules_left_out.set(self._rules.left_out)
        yield from self._signals.publish_in_steps(Decided(decisions, now))
        yield from self._find_similar(decisions, now)
        yield from log_changes(before, decisions, self._part)
        yield from self._gauges.show(decisions)
        replaced = [before]
        del before
        yield from release(replaced)

    def _find_similar(self, decisions: Decisions, now: float) -> Iterator[None]:
        """Update the names of similar metrics; statuses with other ones need a new decision to be written."""
        for changed in self.similar.update(decisions, now):
            if changed:
                self.touch()
            yield

    def _subscribe(self, metrics: frozenset[str]) -> Iterator[None]:
        """Subscribe to these metrics, to a few new ones with each step: each needs room for all nodes."""
        new = sorted(metrics - self._subscribed)
        for end in range(_NEW_METRICS, len(new), _NEW_METRICS):
            self._store.subscribe((self._subscribed & metrics).union(new[:end]))
            yield
        self._store.subscribe(metrics)
        self._subscribed = metrics
        self._peers.keep(metrics)

    def _timed(self, steps: Steps[Decisions]) -> Steps[Decisions]:
        """Run the steps and observe their total time, without the pauses between them."""
        worked = 0.0
        while True:
            begun = time.perf_counter()
            try:
                next(steps)
            except StopIteration as done:
                self._metrics.decide_seconds.observe(worked + time.perf_counter() - begun)
                decisions: Decisions = done.value
                return decisions
            worked += time.perf_counter() - begun
            yield

    def _labels_on(self, node: str) -> Mapping[str, str]:
        """Return the labels of a node, which make groups of peers."""
        found = self._cluster.nodes.objects.get(node)
        return (found.metadata.labels if found else None) or {}

    def regroup(self, node: str) -> None:
        """The labels of a node changed, and with them perhaps its peers."""
        if self._groups.changed(node):
            self.touch()

    def _held(self, policy: Policy, nodes: NodeIndex, now: float) -> Mask | None:
        """Return the nodes that any feature keeps in violation of a policy; None if there are none."""
        masks = [held for holds in self._holds if (held := holds(policy, nodes, now)) is not None]
        return np.logical_or.reduce(masks) if masks else None

    def _labels_of(self, node: str) -> Mapping[str, str]:
        found = self._cluster.nodes.objects.get(node)
        if found is None:
            return {}
        own: dict[str, str] = {}
        for records in self._records:
            own |= records(found)
        return own


def _without(policies: Sequence[Policy], left_out: Collection[str]) -> frozenset[str]:
    """Return the metrics of policies without readings, as some metrics are left out."""
    if not left_out:
        return frozenset()
    metrics = frozenset[str]().union(left_out, *(policy.metrics for policy in policies))
    return frozenset(metric for metric in metrics if base_metric(metric) in left_out)


def _own_labels(node: Node) -> Mapping[str, str]:
    """Return the labels of a node that are ours."""
    return node.node_labels.ours


def waiting_for(cluster: ClusterCache, decisions: Decisions) -> list[str]:
    """Return what is missing before these decisions may be used for the first time."""
    # Most policies share one set object of unreported nodes.
    decided = (one for one in decisions.policies.values() if not one.undecided)
    unreported = frozenset[str]().union(*{one.unreported for one in decided})
    reports = [f"the first report of {counted(len(unreported), 'node')}"] if unreported else []
    return [*cluster.waiting_for, *reports]
