"""The evaluator's own metrics: those of the core, in a registry to which features add theirs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from plimsoll import VERSION
from plimsoll.http import expiry
from plimsoll.process import metrics as process_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]


SLICE = 100
"""Samples of one family that are made or encoded at a time, in half a millisecond."""


class PolicyGauge(Collector):
    """A gauge with thousands of series. `collect()` yields it in slices of `SLICE` samples, each made when it is read.

    The library's own Gauge makes all samples at once, and holds a lock and four objects for each series.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str],
        *,
        registry: CollectorRegistry,
    ) -> None:
        self.labelnames = tuple(labelnames)
        self._name = name
        self._documentation = documentation
        self._values: dict[tuple[str, ...], float] = {}
        registry.register(self)

    def set(self, labels: tuple[str, ...], value: float) -> None:
        """Set the series with these label values, in the order of `labelnames`."""
        self._values[labels] = value

    def remove(self, labels: tuple[str, ...]) -> None:
        """Remove the series with these label values. Raises KeyError if there is none."""
        del self._values[labels]

    def describe(self) -> list[GaugeMetricFamily]:
        """The family without samples."""
        return [GaugeMetricFamily(self._name, self._documentation, labels=self.labelnames)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The family, as several of one name if it has many series."""
        series = list(self._values.items())
        for begin in range(0, max(1, len(series)), SLICE):
            (family,) = self.describe()
            for labels, value in series[begin : begin + SLICE]:
                family.add_metric(labels, value)
            yield family


class Metrics:
    """The metrics of the core, in a registry of their own, so that one process can hold two evaluators in tests.

    `policy_counters`: counters of features with the labels `namespace` and `policy`; `forget` removes their series.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.policy_counters: list[Counter] = []
        process_metrics.register(self.registry)
        self.connections = Gauge(
            "plimsoll_http_connections",
            "Open connections by port.",
            ["port"],
            registry=self.registry,
        )
        self.certificates = Gauge(
            "plimsoll_certificates_last_reload_successful",
            "1 if the last change of a port's certificate files was loaded; 0 if the previous certificate is still in use.",
            ["port"],
            registry=self.registry,
        )
        self.certificates_not_after = Gauge(
            "plimsoll_certificate_not_after_seconds",
            "When a certificate that is in use expires (Unix time), by port and use: server (the first of the chain that "
            "expires), or ca (of clients; the last that expires).",
            ["port", "use"],
            registry=self.registry,
        )
        self.access_decisions = Counter(
            "plimsoll_access_decisions",
            "Requests to ports with delegated access by port and result: allowed, unauthenticated (401), forbidden (403) or "
            "unavailable (503, the API server could not be reached).",
            ["port", "result"],
            registry=self.registry,
        )
        self.internal_errors = Counter(
            "plimsoll_internal_errors",
            "Exceptions that nobody expected while one object was handled, by the part of the program. The object is left "
            "alone for a while, the others are handled; the log has the traceback.",
            ["part"],
            registry=self.registry,
        )
        self.writes_undone = Counter(
            "plimsoll_node_writes_undone",
            "Writes of nodes that another client undid, by what was written: the node needs the same write again.",
            ["what"],
            registry=self.registry,
        )
        self.decide_seconds = Histogram(
            "plimsoll_decide_duration_seconds",
            "Time to evaluate every policy against every reading once.",
            buckets=(0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
            registry=self.registry,
        )
        self.decided_timestamp = Gauge(
            "plimsoll_decide_timestamp_seconds",
            "Unix time of the last decision.",
            registry=self.registry,
        )
        self.policies = Gauge(
            "plimsoll_policies", "Policies in the cluster.", registry=self.registry
        )
        self.policy_problems = PolicyGauge(
            "plimsoll_policy_problems",
            "Problems of a policy, without metrics that no node has; its status lists them.",
            ["namespace", "policy"],
            registry=self.registry,
        )
        self.violating_nodes = PolicyGauge(
            "plimsoll_policy_violating_nodes",
            "Nodes that violate a strategy of a policy, by its mode: enforce or observe.",
            ["namespace", "policy", "strategy", "mode"],
            registry=self.registry,
        )
        self.missing_violations = PolicyGauge(
            "plimsoll_policy_missing_violations",
            "Nodes that violate a strategy because a reading is missing and whenMissing is violate.",
            ["namespace", "policy", "strategy"],
            registry=self.registry,
        )
        self.held_back_nodes = PolicyGauge(
            "plimsoll_policy_peers_held_back_nodes",
            "Nodes that differ from their peers but do not violate the strategy, because more than a tenth of a group does.",
            ["namespace", "policy", "strategy"],
            registry=self.registry,
        )
        self.timed_nodes = PolicyGauge(
            "plimsoll_policy_timed_nodes",
            "Nodes with a running rule timer by state: pending (for) or clearing (clearAfter).",
            ["namespace", "policy", "strategy", "state"],
            registry=self.registry,
        )
        self.missing_readings = PolicyGauge(
            "plimsoll_policy_missing_readings",
            "Nodes without a usable reading of a metric that a policy names; absent ones only if whenMissing is violate.",
            ["namespace", "policy", "metric"],
            registry=self.registry,
        )
        self.absent_readings = PolicyGauge(
            "plimsoll_policy_absent_readings",
            "Nodes that never had a metric that a policy names, although other nodes have it.",
            ["namespace", "policy", "metric"],
            registry=self.registry,
        )
        self.metrics_not_found = PolicyGauge(
            "plimsoll_policy_metrics_not_found",
            "Metrics of a policy that no node has; its condition MetricsFound names them.",
            ["namespace", "policy"],
            registry=self.registry,
        )
        self.rules_left_out = Gauge(
            "plimsoll_rules_left_out",
            "Rules beyond --maxRules; their strategies are not enforced.",
            registry=self.registry,
        )
        self.left_out = Gauge(
            "plimsoll_metrics_left_out",
            "Metrics beyond --maxMetrics; they are not requested from sources.",
            registry=self.registry,
        )
        self.nodes = Gauge("plimsoll_nodes", "Nodes in the cluster.", registry=self.registry)
        self.cluster_age = Gauge(
            "plimsoll_cluster_age_seconds",
            "Seconds since the last response or event of the API server for a kind of object; NaN before the first.",
            ["resource"],
            registry=self.registry,
        )
        self.agents = Gauge(
            "plimsoll_agents_connected", "Nodes with a connected agent.", registry=self.registry
        )
        self.agents_refused = Counter(
            "plimsoll_agents_refused",
            "Agent streams rejected or ended with an error, by gRPC status.",
            ["code"],
            registry=self.registry,
        )
        self.agents_port_restarts = Counter(
            "plimsoll_agents_port_restarts",
            "Restarts of the process that runs gRPC for agents.",
            registry=self.registry,
        )
        self.agents_connections_closed = Counter(
            "plimsoll_agents_connections_closed",
            "Connections to the agents' port that were closed because they sent too much before an agent was admitted.",
            registry=self.registry,
        )
        self.reports = Counter(
            "plimsoll_agent_reports", "Reports received from agents.", registry=self.registry
        )
        self.source_errors = Counter(
            "plimsoll_source_errors",
            "Failed requests to a polled source and unusable responses, by reason.",
            ["source", "reason"],
            registry=self.registry,
        )
        self.source_seconds = Histogram(
            "plimsoll_source_request_duration_seconds",
            "Time of a request to a polled source, also of a failed one.",
            ["source"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self.registry,
        )
        self.source_failing = Gauge(
            "plimsoll_source_failing_metrics",
            "Metrics named by policies that a polled source cannot provide.",
            ["source"],
            registry=self.registry,
        )
        self.ready = Gauge(
            "plimsoll_ready",
            "1 once the evaluator has decisions, 0 before.",
            registry=self.registry,
        )
        self.leader = Gauge(
            "plimsoll_leader",
            "1 in the leader, which writes to the cluster; 0 in other replicas.",
            registry=self.registry,
        )
        build = Gauge(
            "plimsoll_build_info",
            "Always 1; the version is the label.",
            ["version"],
            registry=self.registry,
        )
        build.labels(VERSION).set(1)

    def forget(self, namespace: str, policy: str) -> None:
        """Remove the series of a deleted policy, so that series do not accumulate."""
        for counter in self.policy_counters:
            counter.remove_by_labels({"namespace": namespace, "policy": policy})

    def reloaded(self, port: str) -> Callable[[bool], None]:
        """A callback for the reload result of a port's certificate files."""
        certificates = self.certificates.labels(port)
        certificates.set(1)
        return certificates.set

    def expires(self, port: str) -> Callable[[Sequence[str]], None]:
        """A callback for the files of a port that were loaded: certificate, key, and the client CA if there is one."""

        def loaded(files: Sequence[str]) -> None:
            cert, _, *ca = files
            self._expires(port, "server", min(_ends(cert), default=None))
            for name in ca:
                self._expires(port, "ca", max(_ends(name), default=None))

        return loaded

    def _expires(self, port: str, use: str, at: float | None) -> None:
        if at is None:  # unreadable: no number says more than a wrong one
            self.certificates_not_after.remove_by_labels({"port": port, "use": use})
        else:
            self.certificates_not_after.labels(port, use).set(at)


def _ends(path: str) -> list[float]:
    """Return when the certificates of a file expire (Unix seconds); empty if it cannot be read."""
    with suppress(OSError):
        return [*expiry.ends(Path(path).read_text("latin-1"))]
    return []
