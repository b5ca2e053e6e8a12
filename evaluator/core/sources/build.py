"""Builds the sources selected by flags, and merges their readings; drops those of deleted nodes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.isolation import Part, uncounted
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.readings.merged import AGENTS, Merged, Readings
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store
from evaluator.core.signals import Publish
from evaluator.core.sources.answer import NodeNames
from evaluator.core.sources.custom_metrics import Api, CustomMetrics
from evaluator.core.sources.options import CUSTOM_METRICS, SourceOptions
from evaluator.core.sources.poller import Poller, PollTimings, Source
from evaluator.core.sources.prometheus import Access, Prometheus, Queries
from evaluator.core.sources.prometheus_vector import Join


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
    """Dependencies of the sources."""

    api: Api
    cluster: ClusterCache
    subscriptions: Subscriptions
    metrics: Metrics
    publish: Publish
    part: Callable[[str], Part] = uncounted
    """Returns what takes the exceptions of a source, by its name."""


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
                publish=dependencies.publish,
                part=dependencies.part(f"source {name}"),
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
    part = dependencies.part("nodes of series")
    join = Directory(dependencies.cluster, settings.prometheus_node_label, guard=part).current
    return Prometheus(access, queries, join, timeout=settings.source_timeout)


class Directory:
    """Resolves series to nodes; rebuilt at most once a second, since heartbeats change nodes all the time."""

    def __init__(
        self,
        cluster: ClusterCache,
        label: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        guard: Guard = UNGUARDED,
    ) -> None:
        """`guard` takes what one node raises: it is then known by its name only."""
        self._guard = guard
        self._cluster = cluster
        self._label = label
        self._clock = clock
        self._built = float("-inf")
        self._names = NodeNames((), label)

    def current(self) -> Join:
        """Return the function that finds the node of a series."""
        if self._clock() - self._built >= 1.0:
            self._built = self._clock()
            nodes = self._cluster.nodes.objects.values()
            self._names = NodeNames(nodes, self._label, self._guard)
        return self._names.node
