"""The evaluator's own metrics, all in one registry; docs/metrics.md lists them from here."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from plimsoll import VERSION, process_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]


SLICE = 200
"""Samples of one family that are made or encoded at a time, in a millisecond or less."""


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
    """One set of metrics in a registry of its own, so that two evaluators in one test do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        process_metrics.register(self.registry)
        self.requests = Counter(
            "plimsoll_extender_requests",
            "Requests of the scheduler, by verb, HTTP status and why the answer is what it is.",
            ["verb", "code", "outcome"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "plimsoll_extender_request_duration_seconds",
            "Time from a whole request to its answer.",
            ["verb"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=self.registry,
        )
        self.scorer_requests = Counter(
            "plimsoll_scorer_requests",
            "Requests of the scheduler to a scorer, by verb, HTTP status and whether its last assessment still held.",
            ["scorer", "verb", "code", "outcome"],
            registry=self.registry,
        )
        self.scorer_seconds = Histogram(
            "plimsoll_scorer_duration_seconds",
            "Time in which a scorer assessed all nodes for one pod.",
            ["scorer"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=self.registry,
        )
        self.scorer_missing_nodes = Gauge(
            "plimsoll_scorer_missing_nodes",
            "Nodes of which a scorer lacked what it needs when it last assessed them.",
            ["scorer"],
            registry=self.registry,
        )
        self.connections = Gauge(
            "plimsoll_http_connections",
            "Connections to a port, busy or idle.",
            ["port"],
            registry=self.registry,
        )
        self.certificates = Gauge(
            "plimsoll_certificates_last_reload_successful",
            "Whether the certificate files of a port could be used when they last changed; if not, those before are.",
            ["port"],
            registry=self.registry,
        )
        self.filtered_nodes = Counter(
            "plimsoll_extender_filtered_nodes",
            "Nodes that a filter answer turned away.",
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
            "When policies were last evaluated, in Unix time.",
            registry=self.registry,
        )
        self.policies = Gauge(
            "plimsoll_policies", "Policies in the cluster.", registry=self.registry
        )
        self.policy_problems = PolicyGauge(
            "plimsoll_policy_problems",
            "Things that are wrong with a policy; its status says what.",
            ["namespace", "policy"],
            registry=self.registry,
        )
        self.violating_nodes = PolicyGauge(
            "plimsoll_policy_violating_nodes",
            "Nodes that violate a strategy of a policy.",
            ["namespace", "policy", "strategy"],
            registry=self.registry,
        )
        self.policy_events = Counter(
            "plimsoll_policy_events",
            "What there was to tell in events on a policy, by reason; what came too fast was told with the next.",
            ["namespace", "policy", "reason"],
            registry=self.registry,
        )
        self.missing_violations = PolicyGauge(
            "plimsoll_policy_missing_violations",
            "Nodes that violate a strategy for want of a reading, as whenMissing: violate asks.",
            ["namespace", "policy", "strategy"],
            registry=self.registry,
        )
        self.timed_nodes = PolicyGauge(
            "plimsoll_policy_timed_nodes",
            "Nodes on which a rule waits: pending for its for to run out, clearing for its clearAfter.",
            ["namespace", "policy", "strategy", "state"],
            registry=self.registry,
        )
        self.missing_readings = PolicyGauge(
            "plimsoll_policy_missing_readings",
            "Nodes without a usable reading of a metric that a policy names.",
            ["namespace", "policy", "metric"],
            registry=self.registry,
        )
        self.rules_left_out = Gauge(
            "plimsoll_rules_left_out",
            "Rules that policies have beyond --maxRules: their strategies are not enforced.",
            registry=self.registry,
        )
        self.left_out = Gauge(
            "plimsoll_metrics_left_out",
            "Metrics that policies name beyond --maxMetrics: no source is asked for them.",
            registry=self.registry,
        )
        self.nodes = Gauge("plimsoll_nodes", "Nodes in the cluster.", registry=self.registry)
        self.cluster_age = Gauge(
            "plimsoll_cluster_age_seconds",
            "Seconds since the API server was last heard of a kind of object; NaN before it ever was.",
            ["resource"],
            registry=self.registry,
        )
        self.agents = Gauge(
            "plimsoll_agents_connected", "Nodes whose agent has a stream.", registry=self.registry
        )
        self.agents_refused = Counter(
            "plimsoll_agents_refused",
            "Streams of agents that were turned away or ended, by gRPC status.",
            ["code"],
            registry=self.registry,
        )
        self.reports = Counter(
            "plimsoll_agent_reports", "Reports taken in from agents.", registry=self.registry
        )
        self.source_errors = Counter(
            "plimsoll_source_errors",
            "Questions to a polled source that had no answer, or one with a flaw, by reason.",
            ["source", "reason"],
            registry=self.registry,
        )
        self.source_seconds = Histogram(
            "plimsoll_source_request_duration_seconds",
            "Time from a question to a polled source to its answer, or to its end without one.",
            ["source"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self.registry,
        )
        self.source_failing = Gauge(
            "plimsoll_source_failing_metrics",
            "Metrics that policies name and that a polled source has no answer for.",
            ["source"],
            registry=self.registry,
        )
        self.ready = Gauge(
            "plimsoll_ready", "1 once the evaluator decides, 0 before.", registry=self.registry
        )
        self.leader = Gauge(
            "plimsoll_leader",
            "1 in the replica that labels, evicts and writes statuses, 0 in the others.",
            registry=self.registry,
        )
        self.label_writes = Counter(
            "plimsoll_label_writes",
            "Writes of a node's labels, by result.",
            ["result"],
            registry=self.registry,
        )
        self.label_conflicts = Gauge(
            "plimsoll_label_conflicts",
            "Labels that are wanted on a node but belong to another owner there.",
            registry=self.registry,
        )
        self.evictions = Counter(
            "plimsoll_evictions",
            "Evictions asked for, by policy and result.",
            ["namespace", "policy", "result"],
            registry=self.registry,
        )
        self.nudges = Counter(
            "plimsoll_nudges",
            "Waiting pods that the scheduler was made to try again, since a node may take them, by result.",
            ["result"],
            registry=self.registry,
        )
        self.gangs = Gauge(
            "plimsoll_gangs", "Gangs, by how they stand.", ["state"], registry=self.registry
        )
        self.gangs_obstructed = Gauge(
            "plimsoll_gangs_obstructed",
            "Gangs that lack pods their controllers do not or cannot create: see the event GangCannotComplete.",
            registry=self.registry,
        )
        self.gang_pods_gated = Gauge(
            "plimsoll_gang_pods_gated",
            "Pods that our scheduling gate holds.",
            registry=self.registry,
        )
        self.gang_oldest_wait = Gauge(
            "plimsoll_gang_oldest_wait_seconds",
            "For how long the gang has waited that has waited longest; 0 where none does.",
            registry=self.registry,
        )
        self.gang_waits = Histogram(
            "plimsoll_gang_wait_seconds",
            "Time from a gang's oldest pod to its release.",
            buckets=(1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400),
            registry=self.registry,
        )
        self.gang_releases = Counter(
            "plimsoll_gang_releases",
            "Releases of a gang's pods, by why they were let go.",
            ["reason"],
            registry=self.registry,
        )
        self.gang_timeouts = Counter(
            "plimsoll_gang_timeouts",
            "Turns of gangs that ended before all of their pods had nodes.",
            registry=self.registry,
        )
        self.gates_lifted = Counter(
            "plimsoll_gang_gates_lifted",
            "Gates that were to be lifted, by result.",
            ["result"],
            registry=self.registry,
        )
        self.gang_admissions = Counter(
            "plimsoll_gang_admissions",
            "Questions of the API server about new pods, by what became of the pod: gated, left, or the question refused.",
            ["result"],
            registry=self.registry,
        )
        self.gang_decide_seconds = Histogram(
            "plimsoll_gang_decide_duration_seconds",
            "Time to decide once which gang goes.",
            buckets=(0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
            registry=self.registry,
        )
        self.gang_events = Counter(
            "plimsoll_gang_events",
            "Events on pods of gangs that were to be written, by reason and result.",
            ["reason", "result"],
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
        """Count no longer what there was of a policy that is gone: names that come and go must not pile up."""
        for counter in (self.policy_events, self.evictions):
            counter.remove_by_labels({"namespace": namespace, "policy": policy})

    def reloaded(self, port: str) -> Callable[[bool], None]:
        """Whom to tell whether the certificate files of a port, which changed, can be used."""
        certificates = self.certificates.labels(port)
        certificates.set(1)
        return certificates.set
