"""The loop around decide(): evaluates when something changed or a reading grows too old, swaps the result, says what is new."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from evaluator.cluster import Cluster
from evaluator.decisions import Decision, Decisions, decide
from evaluator.extender.verbs import NotReadyError
from evaluator.metrics import Metrics
from evaluator.rations import MOST_METRICS, Rationed, ration
from evaluator.readings import Readings
from evaluator.rules import View
from evaluator.subscription import Subscriptions
from plimsoll import logs

log = logs.get(__name__)

_PAUSE = 0.005
"""Seconds between two evaluations, so that a burst of reports costs a few of them and not one each."""

_LATE = 1.0
"""Seconds after which decisions that time has changed are not given out any more: the loop has not run, nor has it heard any news."""

_FOREVER = 1e9
_NAMED = 10
"""Nodes that the log names when a policy's view of many changes."""


class Decider:
    """Owns the current decisions. `touch()` says that something changed; `listeners` are called after each swap."""

    def __init__(
        self,
        cluster: Cluster,
        store: Readings,
        subscriptions: Subscriptions,
        metrics: Metrics,
        *,
        most_metrics: int = MOST_METRICS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._most_metrics = most_metrics
        self._clock = clock
        self._decisions = Decisions()
        self._changed = asyncio.Event()
        self._waiting_for: Sequence[str] = ("a first evaluation",)
        self._stopping: Sequence[str] = ()
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

    def explainable(self) -> Decisions:
        """The current decisions beside the readings of this moment: one that was only confirmed changes no decision."""
        view, now = self._decisions.view, self._clock()
        columns = {name: self._store.column(name, view.nodes, now) for name in view.columns}
        return replace(self._decisions, view=View(view.nodes, columns))

    def current(self) -> Decisions:
        """The current decisions. Raises NotReadyError while they rest on nothing.

        A process that was stopped for a while may be asked before its loop has had its turn: then this is its turn.
        """
        if self._missing:
            raise NotReadyError(f"not ready: waiting for {', '.join(self._missing)}")
        if self._clock() > self._decisions.valid_until + _LATE:
            self.evaluate()
        return self._decisions

    def stop(self, why: str) -> None:
        """Not ready from now on: a program that is going away must not get new requests.

        Those that it got are answered: what was decided is as true as before.
        """
        self._stopping = (why,)

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
            if not self._cluster.waiting_for:
                self.evaluate()
            await asyncio.sleep(_PAUSE)

    def evaluate(self) -> None:
        """Evaluate now, swap the result, tell the listeners."""
        policies = self._cluster.policies.objects.values()
        rationed = ration([policy.metrics for policy in policies], self._most_metrics)
        self._store.subscribe(rationed.asked)
        self._subscriptions.want(rationed.asked)
        self._store.prune(self._cluster.nodes.objects, self._clock())
        with self._metrics.decide_seconds.time():
            decisions = decide(
                policies,
                self._cluster.nodes.objects,
                Rationed(self._store, rationed.left_out, self._most_metrics),
                now=self._clock(),
                before=self._decisions,
                labels_of=self._labels_of,
            )
        announce(self._decisions, decisions)
        self._decisions = decisions
        if self._waiting_for:
            self._waiting_for = waiting_for(self._cluster, decisions)
        self._metrics.left_out.set(len(rationed.left_out))
        self._count()
        for tell in self.listeners:
            tell()

    def _labels_of(self, node: str) -> Mapping[str, str]:
        """What an earlier life said about a node, or another replica says now."""
        found = self._cluster.nodes.objects.get(node)
        return found.node_labels.ours if found else {}

    def _count(self) -> None:
        metrics, decisions = self._metrics, self._decisions
        metrics.decided_timestamp.set_to_current_time()
        metrics.policies.set(len(decisions.policies))
        metrics.nodes.set(len(decisions.view.nodes))
        for gauge in (
            metrics.policy_problems,
            metrics.violating_nodes,
            metrics.missing_violations,
            metrics.timed_nodes,
            metrics.missing_readings,
        ):
            gauge.clear()
        for key, decision in decisions.policies.items():
            metrics.policy_problems.labels(*key).set(len(decision.problems))
            for strategy, violating in decision.violations.items():
                metrics.violating_nodes.labels(*key, strategy.value).set(len(violating))
            for strategy, standing in decision.standings.items():
                of = (*key, strategy.value)
                metrics.missing_violations.labels(*of).set(standing.missing)
                metrics.timed_nodes.labels(*of, "pending").set(standing.pending)
                metrics.timed_nodes.labels(*of, "clearing").set(standing.clearing)
            for metric in decision.policy.metrics:
                missing = decision.missing.get(metric, ())
                metrics.missing_readings.labels(*key, metric).set(len(missing))


def waiting_for(cluster: Cluster, decisions: Decisions) -> list[str]:
    """What is missing before these decisions may be used for the first time."""
    awaited = frozenset[str]().union(*(d.awaited for d in decisions.policies.values()))
    reports = [f"the first report of {len(awaited)} nodes"] if awaited else []
    return [*cluster.waiting_for, *reports]


def announce(before: Decisions, after: Decisions) -> None:
    """Log what changed, in the words that users of TAS look for."""
    for key, decision in after.policies.items():
        old = before.policies.get(key, Decision(decision.policy))
        context = log.bind(policy=str(key))
        changes = [
            (strategy.value, old.violations[strategy], now)
            for strategy, now in decision.violations.items()
            if now is not old.violations[strategy]
        ]
        if key not in before.policies or any(was != now for _, was, now in changes):
            context.info("Evaluating %s", key.name)
        for strategy, was, now in changes:
            new = {node: now[node] for node in now.keys() - was.keys()}
            _name(context, new, f"violating {key.name}", strategy)
            cleared = f"no longer violating {key.name}"
            _name(context, dict.fromkeys(was.keys() - now.keys(), cleared), cleared, strategy)
        for problem in decision.problems:
            if problem not in old.problems:
                context.warning("problem in policy %s: %s", key.name, problem)
    for key in before.policies.keys() - after.policies.keys():
        log.info("policy %s is gone", key.name, policy=str(key))


def _name(
    context: structlog.stdlib.BoundLogger, told: Mapping[str, str], rest: str, strategy: str
) -> None:
    """A line for each node, up to some: what befalls all nodes at once must not cost a line for each of thousands."""
    some = sorted(told)[:_NAMED]
    for node in some:
        context.info("%s %s", node, told[node], node=node, strategy=strategy)
    if more := len(told) - len(some):
        context.info("%d more nodes %s", more, rest, nodes=more, strategy=strategy)
