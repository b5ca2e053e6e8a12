"""The sources that the flags name: whom to ask, what was read of each, and all of it as one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluator.cache.cluster import ClusterCache
from evaluator.engine.subscription import Subscriptions
from evaluator.metrics import Metrics
from evaluator.readings.merged import AGENTS, CUSTOM_METRICS, Merged, Readings
from evaluator.readings.polled import PolledReadings
from evaluator.readings.store import Store
from evaluator.sources.custom_metrics import Api, CustomMetrics
from evaluator.sources.formats.node_join import NodeNames
from evaluator.sources.formats.prometheus_vector import Join
from evaluator.sources.options import SourceOptions
from evaluator.sources.poller import Poller, PollTimings, Source
from evaluator.sources.prometheus import Access, Prometheus
from evaluator.sources.queries import Queries
from evaluator.sources.registrations import Registrations


@dataclass(frozen=True, slots=True)
class SourceDependencies:
    """What sources need of the rest of the evaluator; `on_change` is called when a polled one said something new."""

    api: Api
    cluster: ClusterCache
    subscriptions: Subscriptions
    metrics: Metrics
    on_change: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Sources:
    """What decisions read, and the loops that feed it; agents report by themselves."""

    readings: Readings
    pollers: Sequence[Poller]
    registrations: Registrations


def assemble(
    settings: SourceOptions, store: Store, around: SourceDependencies, *, period: float
) -> Sources:
    """The sources in the order of the flags; `store` is what agents report into.

    Raises TlsError and QueriesError for files that cannot be used.
    """
    readings: dict[str, Readings] = {}
    pollers = []
    pace = PollTimings(period, settings.source_timeout)
    for name in settings.sources:
        if name == AGENTS:
            readings[name] = store
            continue
        polls = PolledReadings(name, stale_after=store.stale_after, started=store.started)
        readings[name] = polls
        pollers.append(
            Poller(
                _source(name, settings, around),
                polls,
                around.subscriptions,
                around.metrics,
                pace=pace,
                nodes=lambda: around.cluster.nodes.objects,
                on_change=around.on_change,
            )
        )
    agents = store if AGENTS in readings else None
    polled = [found for found in readings.values() if isinstance(found, PolledReadings)]
    only = next(iter(readings.values())) if len(readings) == 1 else None
    return Sources(only or Merged(readings), pollers, Registrations(agents, polled))


def _source(name: str, settings: SourceOptions, around: SourceDependencies) -> Source:
    if name == CUSTOM_METRICS:
        return CustomMetrics(around.api)
    access = Access(
        settings.prometheus_url,
        settings.prometheus_token_file,
        settings.prometheus_user,
        settings.prometheus_password_file,
        settings.prometheus_cacert,
    )
    queries = Queries(settings.prometheus_queries)
    join = Directory(around.cluster, settings.prometheus_node_label).current
    return Prometheus(access, queries, join, timeout=settings.source_timeout)


class Directory:
    """The nodes' names as they are, put together at most once a second: heartbeats change nodes all the time."""

    def __init__(
        self, cluster: ClusterCache, label: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._label = label
        self._clock = clock
        self._made = float("-inf")
        self._names = NodeNames((), label)

    def current(self) -> Join:
        """What tells the node of a series."""
        if self._clock() - self._made >= 1.0:
            self._made = self._clock()
            self._names = NodeNames(self._cluster.nodes.objects.values(), self._label)
        return self._names.node
