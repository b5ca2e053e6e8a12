"""The sources that flags select, and what agents, polled sources and watches report, on its way to the decision loop."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.node import NodeCondition
from evaluator.core.model.pod import Pod
from evaluator.core.placement.ledger import PlacedPod
from evaluator.core.placement.placements import Placements
from evaluator.core.readings.merged import AGENTS, Merged, Readings
from evaluator.core.readings.node_conditions import NodeConditions
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.reported import FailingRuleIndex, NodeCauses, NodeProblems
from evaluator.core.readings.store import Store
from evaluator.core.sources.agents.calls import Code
from evaluator.core.sources.agents.server import ReportListener
from evaluator.core.sources.answer import NodeNames
from evaluator.core.sources.custom_metrics import Api, CustomMetrics
from evaluator.core.sources.options import CUSTOM_METRICS, SourceOptions
from evaluator.core.sources.poller import Poller, PollTimings, Source
from evaluator.core.sources.prometheus import Access, Prometheus, Queries
from evaluator.core.sources.prometheus_vector import Join
from plimsoll import rfc3339
from wire.failing_rules import FailingRules
from wire.problems import Problems


class Registrations:
    """Drops readings of nodes that are deleted or replaced. The first report of a replacement is pending.

    A node with a new name is not pending: it may have no agent, and the extender would answer 503 for `stale_after`
    whenever a node joins.
    """

    def __init__(self, agents: Store | None, polled: Sequence[PolledReadings]) -> None:
        self._agents = agents
        self._polled = polled
        self._deleted: dict[str, float] = {}
        """Recently deleted nodes that had readings, and when."""

    def changed(self, node: str, *, registered: bool, now: float) -> None:
        """Handle the registration, replacement or deletion of a node; `now` in seconds of the store's clock."""
        for polled in self._polled:
            polled.forget(node)
        if self._agents is None:
            return
        known = self._agents.knows(node)
        self._agents.forget(node)
        self._drop_old(now - self._agents.stale_after)
        if not registered:
            if known:
                self._deleted[node] = now
        elif self._deleted.pop(node, None) is not None or known:
            self._agents.expect(node, now)

    def _drop_old(self, before: float) -> None:
        """Dicts keep the order of insertion: the oldest come first."""
        for node, at in [*self._deleted.items()]:
            if at >= before:
                return
            del self._deleted[node]


@dataclass(frozen=True, slots=True)
class SourceDependencies:
    """Dependencies of the sources; `on_change` is called when a polled reading changed."""

    api: Api
    cluster: ClusterCache
    subscriptions: Subscriptions
    metrics: Metrics
    on_change: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Sources:
    """The merged readings, and the pollers that update them; agents push their reports."""

    readings: Readings
    pollers: Sequence[Poller]
    registrations: Registrations


def assemble(
    settings: SourceOptions, store: Store, dependencies: SourceDependencies, *, period: float
) -> Sources:
    """Return the sources in the order of the flags; `store` receives agents' reports.

    Raises TlsError and QueriesError for invalid files.
    """
    readings: dict[str, Readings] = {}
    pollers = []
    timings = PollTimings(period, settings.source_timeout)
    for name in settings.sources:
        if name == AGENTS:
            readings[name] = store
            continue
        polled = PolledReadings(name, stale_after=store.stale_after, started=store.started)
        readings[name] = polled
        pollers.append(
            Poller(
                _source(name, settings, dependencies),
                polled,
                dependencies.subscriptions,
                dependencies.metrics,
                timings=timings,
                nodes=dependencies.cluster.nodes.objects,
                on_change=dependencies.on_change,
            )
        )
    agents = store if AGENTS in readings else None
    all_polled = [found for found in readings.values() if isinstance(found, PolledReadings)]
    only = next(iter(readings.values())) if len(readings) == 1 else None
    return Sources(only or Merged(readings), pollers, Registrations(agents, all_polled))


def _source(name: str, settings: SourceOptions, dependencies: SourceDependencies) -> Source:
    if name == CUSTOM_METRICS:
        return CustomMetrics(dependencies.api)
    access = Access(
        settings.prometheus_url,
        settings.prometheus_token_file,
        settings.prometheus_user,
        settings.prometheus_password_file,
        settings.prometheus_cacert,
        settings.prometheus_headers,
    )
    queries = Queries(settings.prometheus_queries)
    join = Directory(dependencies.cluster, settings.prometheus_node_label).current
    return Prometheus(access, queries, join, timeout=settings.source_timeout)


class Directory:
    """Resolves series to nodes; rebuilt at most once a second, since heartbeats change nodes all the time."""

    def __init__(
        self, cluster: ClusterCache, label: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._label = label
        self._clock = clock
        self._built = float("-inf")
        self._names = NodeNames((), label)

    def current(self) -> Join:
        """Return the function that finds the node of a series."""
        if self._clock() - self._built >= 1.0:
            self._built = self._clock()
            self._names = NodeNames(self._cluster.nodes.objects.values(), self._label)
        return self._names.node


class Intake(ReportListener):
    """Notes each change, and requests an evaluation if it may change a decision. Times are of one monotonic clock."""

    def __init__(
        self,
        loop: DecisionLoop,
        metrics: Metrics,
        *,
        conditions: NodeConditions,
        failing_rules: FailingRuleIndex,
        problems: NodeProblems,
        causes: NodeCauses,
        registrations: Registrations,
        placements: Placements,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._loop = loop
        self._metrics = metrics
        self._conditions = conditions
        self._failing_rules = failing_rules
        self._problems = problems
        self._causes = causes
        self._registrations = registrations
        self._placements = placements
        self._clock = clock
        self._wall = wall

    def reported(self, changed: bool) -> None:
        """An agent reported; `changed`: a reading differs from the last one."""
        self._metrics.reports.inc()
        if changed:
            self._loop.touch()

    def similar_reported(self, names: Mapping[str, Sequence[str]]) -> None:
        """An agent reported names of its series that resemble absent metrics, by metric."""
        if self._loop.similar.report(names):
            self._loop.touch()

    def matching_reported(self, names: Sequence[str]) -> None:
        """An agent reported names of its metrics that match the patterns of extra metrics."""
        if self._loop.extra.found(names):
            self._loop.touch()

    def failing_reported(self, node: str, rules: FailingRules) -> None:
        """An agent reported its failing rules, or ended: then there are none."""
        self._failing_rules.report(node, rules, self._clock())

    def problems_reported(self, node: str, problems: Problems) -> None:
        """An agent reported the problems of its node."""
        self._problems.report(node, problems)

    def causes_reported(self, node: str, causes: Mapping[str, str]) -> None:
        """An agent reported what its readings come from. They change with a reading, or decide nothing."""
        self._causes.report(node, causes)

    def refused(self, code: Code) -> None:
        """A stream of an agent was rejected."""
        self._metrics.agents_refused.labels(code).inc()

    def node_changed(self, node: str, registered: bool) -> None:
        """A node was registered, possibly replacing one of the same name, or deleted."""
        self._registrations.changed(node, registered=registered, now=self._clock())
        if not registered:
            self._problems.forget(node)
            self._causes.report(node, {})

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod with a policy label changed; None: it is absent."""
        left, came = _placed(before), _placed(after)
        if left is not None and came is not None and _place(left) == _place(came):
            return
        now = self._clock()
        if left is not None:
            self._placements.gone(*left, now)
        if came is None or after is None:
            return
        observed = before is not None and before.metadata.uid == after.metadata.uid
        bound = None if observed else rfc3339.parse_or_none(after.bound_at)
        age = 0.0 if bound is None else max(0.0, self._wall() - bound)
        self._placements.bound(*came, now - age, now)

    def conditions_changed(self, node: str, conditions: Sequence[NodeCondition]) -> None:
        """The conditions of a node changed."""
        if self._conditions.changed(node, conditions):
            self._loop.touch()


def _placed(pod: Pod | None) -> tuple[PlacedPod, str] | None:
    """Return a running pod with its node; None for any other, or one that names no policy any more."""
    if pod is None or not pod.running or (policy := policy_of(pod)) is None:
        return None
    return PlacedPod(pod.metadata.uid, policy, pod.spec.requests), pod.spec.node_name


def _place(placed: tuple[PlacedPod, str]) -> tuple[str, str]:
    """Return the UID and the node of a pod: its label and its requests may change where it runs."""
    return placed[0].uid, placed[1]
