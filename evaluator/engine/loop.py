"""The loop around decide(): evaluates when something changed or a reading grows too old, swaps the result, says what is new."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from evaluator.cache.cluster import ClusterCache
from evaluator.engine.decision_log import log_changes
from evaluator.engine.gauges import PolicyGauges
from evaluator.engine.subscription import Subscriptions
from evaluator.metrics import Metrics
from evaluator.model.steps import Steps
from evaluator.policy.decide import Decisions, NotReadyError, deciding
from evaluator.policy.metric_limit import (
    MOST_METRICS,
    MOST_RULES,
    LimitedReadings,
    RuleRation,
    limit_metrics,
)
from evaluator.policy.scorer_metrics import OFF, ScorerMetrics, Scoring
from evaluator.readings.merged import Readings
from evaluator.scoring.derived import measured
from plimsoll.text import counted

_PAUSE = 0.005
"""Seconds between two evaluations, so that a burst of reports costs a few of them and not one each."""

_LATE = 1.0
"""Seconds after which decisions that time has changed are not given out any more: this process was stopped, and has heard nobody."""

_SLICE = 0.001
"""Seconds of work after which others have their turn, for as long: kube-scheduler may be waiting."""
_POLITE = 0.01
"""Seconds for which a slice waits at most while kube-scheduler is asking: its answer takes less, but there may be another."""
_REST = 15
"""After an evaluation, the time that it took so many times over; with thousands of nodes that is a tenth of one core at most."""
_LONGEST_REST = 0.06
"""Seconds; so a change reaches the answers within a tenth of a second however much there is to decide."""

_NEW_METRICS = 25
"""Metrics that the readings are subscribed to at a time: a millisecond with 5,000 nodes."""

_FOREVER = 1e9


class DecisionLoop:
    """Owns the current decisions. `touch()` says that something changed; `listeners` are called after each swap."""

    def __init__(
        self,
        cluster: ClusterCache,
        store: Readings,
        subscriptions: Subscriptions,
        metrics: Metrics,
        *,
        scoring: Scoring = OFF,
        most_metrics: int = MOST_METRICS,
        most_rules: int = MOST_RULES,
        scorers_take: frozenset[str] = frozenset(),
        slice_: float = _SLICE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._store = ScorerMetrics(store, scoring)
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._most_metrics = most_metrics
        self._rules = RuleRation(most_rules)
        self._scorers_take = scorers_take
        self._slice = slice_
        self._tally = PolicyGauges(metrics)
        self._clock = clock
        self._decisions = Decisions()
        self._subscribed = frozenset[str]()
        self._decided = clock()
        self._changed = asyncio.Event()
        self._waiting_for: Sequence[str] = ("a first evaluation",)
        self._stopping: Sequence[str] = ()
        self._asked: Callable[[], bool] = lambda: False
        self.listeners: list[Callable[[], None]] = []
        metrics.ready.set_function(lambda: not self.waiting_for)

    @property
    def waiting_for(self) -> Sequence[str]:
        """Why this program is not ready: what is missing before decisions may be used, or that it is going away.

        Or that nothing is heard of the API server: then what was decided is answered on, and nothing is written.
        """
        return self._stopping or self._missing or self._cluster.freshness.stale(self._clock())

    @property
    def _missing(self) -> Sequence[str]:
        return self._cluster.waiting_for or self._waiting_for

    @property
    def latest(self) -> Decisions:
        """The current decisions, whether or not they may be used yet: for people who look."""
        return self._decisions

    def readings(self) -> AbstractContextManager[Readings]:
        """The readings of this moment: one that was only confirmed is newer here than in the current decisions."""
        return self._store.snapshot(self._decisions.table.nodes)

    def current(self) -> Decisions:
        """The current decisions. Raises NotReadyError while they rest on nothing.

        A process that was stopped for a while may be asked before its loop has had its turn: then this is its turn.
        """
        if self._missing:
            raise NotReadyError(f"not ready: waiting for {', '.join(self._missing)}")
        if self._is_late(self._clock()):
            self.evaluate()
        return self._decisions

    def _is_late(self, now: float) -> bool:
        return now > self._decisions.valid_until + _LATE

    def stop(self, why: str) -> None:
        """Not ready from now on: a program that is going away must not get new requests.

        Those that it got are answered: what was decided is as true as before.
        """
        self._stopping = (why,)

    def give_way(self, asked: Callable[[], bool]) -> None:
        """`asked()` says whether somebody is waiting for an answer right now: then decisions can wait a moment."""
        self._asked = asked

    def touch(self) -> None:
        """Something changed: evaluate soon."""
        self._changed.set()

    async def run(self) -> None:
        """Evaluate for ever: after each change, and when time alone changes something, as when a reading grows stale."""
        while True:
            wait = self._decisions.valid_until - self._clock()
            with contextlib.suppress(TimeoutError):
                # Not wait_for(): before Python 3.12, who is cancelled as the event comes goes on as if nothing had been.
                async with asyncio.timeout(max(0.0, wait) + _PAUSE if wait < _FOREVER else None):
                    await self._changed.wait()
            self._changed.clear()
            await self._until_answered()
            worked = 0.0 if self._cluster.waiting_for else await self._evaluate_in_slices()
            await asyncio.sleep(max(_PAUSE, min(_REST * worked, _LONGEST_REST)))

    async def _evaluate_in_slices(self) -> float:
        """Evaluate, giving way to others as often as they would notice; returns the seconds of work.

        Those of the processor: on a busy machine, what others took is no reason to take still longer.
        """
        worked, begun = 0.0, time.thread_time()
        for _ in self._evaluation():
            if (spent := time.thread_time() - begun) >= self._slice:
                worked += spent
                await asyncio.sleep(spent)
                await self._until_answered()
                begun = time.thread_time()
        return worked + time.thread_time() - begun

    async def _until_answered(self) -> None:
        """Or an answer that takes several turns of the loop would wait for a slice of ours in each of them."""
        loop = asyncio.get_running_loop()
        patience = loop.time() + _POLITE
        while self._asked() and loop.time() < patience:  # noqa: ASYNC110 (who asks must not be slowed by telling)
            await asyncio.sleep(_SLICE)

    def evaluate(self) -> None:
        """Evaluate now, swap the result, tell the listeners."""
        for _ in self._evaluation():
            pass

    def _evaluation(self) -> Iterator[None]:
        """One evaluation, in steps. What it decides on is taken in the first of them."""
        policies = list(self._cluster.policies.objects.values())
        limited = self._rules.limited(policies)
        named = [measured(policy.metrics) for policy in limited]
        rationed = limit_metrics(named, self._most_metrics, always=self._scorers_take)
        before = self._decisions
        # First the rows, then the columns: the other way round, the columns would be moved.
        self._store.prune(self._cluster.nodes.objects, self._clock())
        for _ in self._subscribe(rationed.asked):
            yield
            if self._decisions is not before:
                return  # another evaluation ran meanwhile, and may have subscribed to other metrics
        self._subscriptions.want(rationed.asked)
        now = self._clock()
        if self._is_late(now):
            self._store.resume(self._decided, now)
        decisions = yield from self._timed(
            deciding(
                limited,
                self._cluster.names,
                LimitedReadings(self._store, rationed.left_out, self._most_metrics),
                now=now,
                before=before,
                labels_of=self._labels_of,
            )
        )
        if self._decisions is not before:
            return  # somebody could not wait, and has newer ones
        self._decisions, self._decided = decisions, now
        if self._waiting_for:
            self._waiting_for = waiting_for(self._cluster, decisions)
        self._metrics.left_out.set(len(rationed.left_out))
        self._metrics.rules_left_out.set(self._rules.left_out)
        for tell in self.listeners:
            tell()
        yield from log_changes(before, decisions)
        yield from self._tally.show(decisions)

    def _subscribe(self, wanted: frozenset[str]) -> Iterator[None]:
        """Subscribe to these metrics, to a few new ones with each step: each needs room for all nodes."""
        new = sorted(wanted - self._subscribed)
        for end in range(_NEW_METRICS, len(new), _NEW_METRICS):
            self._store.subscribe((self._subscribed & wanted).union(new[:end]))
            yield
        self._store.subscribe(wanted)
        self._subscribed = wanted

    def _timed(self, steps: Steps[Decisions]) -> Steps[Decisions]:
        """The same steps; how long they took together is measured, without what others did between them."""
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

    def _labels_of(self, node: str) -> Mapping[str, str]:
        """What an earlier life said about a node, or another replica says now."""
        found = self._cluster.nodes.objects.get(node)
        return found.node_labels.ours if found else {}


def waiting_for(cluster: ClusterCache, decisions: Decisions) -> list[str]:
    """What is missing before these decisions may be used for the first time."""
    # Most policies wait for the same nodes: their sets are one and the same.
    unreported = frozenset[str]().union(*{d.unreported for d in decisions.policies.values()})
    reports = [f"the first report of {counted(len(unreported), 'node')}"] if unreported else []
    return [*cluster.waiting_for, *reports]
