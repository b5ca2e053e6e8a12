"""The evaluator's own metrics, all in one registry; docs/metrics.md lists them from here."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from plimsoll import VERSION
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
    """The metrics in a registry of their own, so that one process can hold two evaluators in tests."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        process_metrics.register(self.registry)
        self.requests = Counter(
            "plimsoll_extender_requests",
            "Requests of kube-scheduler by verb, HTTP status and outcome.",
            ["verb", "code", "outcome"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "plimsoll_extender_request_duration_seconds",
            "Time from a complete request to its response.",
            ["verb"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=self.registry,
        )
        self.scorer_requests = Counter(
            "plimsoll_scorer_requests",
            "Requests of kube-scheduler to a scorer by verb, HTTP status and whether a cached result was used.",
            ["scorer", "verb", "code", "outcome"],
            registry=self.registry,
        )
        self.scorer_seconds = Histogram(
            "plimsoll_scorer_duration_seconds",
            "Time of a scorer to assess all nodes for one pod.",
            ["scorer"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=self.registry,
        )
        self.scorer_missing_nodes = Gauge(
            "plimsoll_scorer_missing_nodes",
            "Nodes without an input that a scorer needs, at its last assessment.",
            ["scorer"],
            registry=self.registry,
        )
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
        self.access_decisions = Counter(
            "plimsoll_access_decisions",
            "Requests to ports with delegated access by port and result: allowed, unauthenticated (401), forbidden (403) or "
            "unavailable (503, the API server could not be asked).",
            ["port", "result"],
            registry=self.registry,
        )
        self.custom_metrics_requests = Counter(
            "plimsoll_custom_metrics_requests",
            "Requests to the custom metrics API by resource and HTTP status.",
            ["resource", "code"],
            registry=self.registry,
        )
        self.custom_metrics_left_out = Counter(
            "plimsoll_custom_metrics_left_out_values",
            "Values left out of responses of the custom metrics API: a quantity cannot be NaN or infinite.",
            registry=self.registry,
        )
        self.filtered_nodes = Counter(
            "plimsoll_extender_filtered_nodes",
            "Nodes rejected by filter responses; with mode observe, nodes that an observed policy would reject.",
            ["mode"],
            registry=self.registry,
        )
        for mode in ("enforce", "observe"):
            self.filtered_nodes.labels(mode)
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
        self.policy_pods = PolicyGauge(
            "plimsoll_policy_pods",
            "Waiting and running pods that name a policy by state: following, or ignored, since the policy does not apply to them.",
            ["namespace", "policy", "state"],
            registry=self.registry,
        )
        self.pod_events = Counter(
            "plimsoll_pod_events",
            "Events on pods that name a policy, by reason and result.",
            ["reason", "result"],
            registry=self.registry,
        )
        self.policy_events = Counter(
            "plimsoll_policy_events",
            "Occurrences recorded as Events on a policy by reason; under the rate limit, several share one write.",
            ["namespace", "policy", "reason"],
            registry=self.registry,
        )
        self.missing_violations = PolicyGauge(
            "plimsoll_policy_missing_violations",
            "Nodes that violate a strategy because a reading is missing and whenMissing is violate.",
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
            "Nodes without a usable reading of a metric that a policy names.",
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
        self.label_writes = Counter(
            "plimsoll_label_writes",
            "Writes of node labels by result.",
            ["result"],
            registry=self.registry,
        )
        self.label_conflicts = Gauge(
            "plimsoll_label_conflicts",
            "Node labels that are not set because another field manager owns them.",
            registry=self.registry,
        )
        self.taint_writes = Counter(
            "plimsoll_taint_writes",
            "Writes of node taints by result.",
            ["result"],
            registry=self.registry,
        )
        self.condition_writes = Counter(
            "plimsoll_condition_writes",
            "Writes of node conditions by result.",
            ["result"],
            registry=self.registry,
        )
        self.tainted_nodes = Gauge(
            "plimsoll_tainted_nodes",
            "Nodes with a taint of Plimsoll.",
            registry=self.registry,
        )
        self.acted_nodes = PolicyGauge(
            "plimsoll_policy_acted_nodes",
            "Nodes with a hard taint of a policy, or from which its pods are evicted.",
            ["namespace", "policy"],
            registry=self.registry,
        )
        self.held_back_nodes = PolicyGauge(
            "plimsoll_policy_held_back_nodes",
            "Violating nodes that are not acted on because of max-nodes or --maxActedNodes.",
            ["namespace", "policy"],
            registry=self.registry,
        )
        self.evictions = Counter(
            "plimsoll_evictions",
            "Evictions requested, by policy and result.",
            ["namespace", "policy", "result"],
            registry=self.registry,
        )
        self.nudges = Counter(
            "plimsoll_nudges",
            "Rejected pods requeued because a node may take them, by result.",
            ["result"],
            registry=self.registry,
        )
        for result in ("ok", "error"):
            self.nudges.labels(result)
        self.gangs = Gauge("plimsoll_gangs", "Gangs by state.", ["state"], registry=self.registry)
        self.gangs_obstructed = Gauge(
            "plimsoll_gangs_obstructed",
            "Gangs without pods that their controllers do not create; the Event GangCannotComplete has the reason.",
            registry=self.registry,
        )
        self.gang_pods_gated = Gauge(
            "plimsoll_gang_pods_gated",
            "Pods held by the scheduling gate.",
            registry=self.registry,
        )
        self.gang_oldest_wait = Gauge(
            "plimsoll_gang_oldest_wait_seconds",
            "Waiting time of the oldest waiting gang; 0 if none waits.",
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
            "Releases of gang pods by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.gang_timeouts = Counter(
            "plimsoll_gang_timeouts",
            "Released gangs that timed out before all of their pods were bound.",
            registry=self.registry,
        )
        self.gates_lifted = Counter(
            "plimsoll_gang_gates_lifted",
            "Gate removals by result.",
            ["result"],
            registry=self.registry,
        )
        self.gang_admissions = Counter(
            "plimsoll_gang_admissions",
            "Admission requests for new pods by result: gated, left unchanged, or refused.",
            ["result"],
            registry=self.registry,
        )
        for result in ("gated", "left", "refused"):
            self.gang_admissions.labels(result)
        self.gang_decide_seconds = Histogram(
            "plimsoll_gang_decide_duration_seconds",
            "Time of one gang decision.",
            buckets=(0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
            registry=self.registry,
        )
        self.gang_events = Counter(
            "plimsoll_gang_events",
            "Events on gang pods by reason and result.",
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
        """Remove the series of a deleted policy, so that series do not accumulate."""
        for counter in (self.policy_events, self.evictions):
            counter.remove_by_labels({"namespace": namespace, "policy": policy})

    def reloaded(self, port: str) -> Callable[[bool], None]:
        """A callback for the reload result of a port's certificate files."""
        certificates = self.certificates.labels(port)
        certificates.set(1)
        return certificates.set
