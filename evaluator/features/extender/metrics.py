"""The metrics of kube-scheduler's requests."""

from prometheus_client import CollectorRegistry, Counter, Histogram


class ExtenderMetrics:
    """The metrics of kube-scheduler's requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "plimsoll_extender_requests",
            "Requests of kube-scheduler by verb, HTTP status and outcome.",
            ["verb", "code", "outcome"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "plimsoll_extender_request_duration_seconds",
            "Time from a complete request to its response.",
            ["verb"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=registry,
        )
        self.filtered_nodes = Counter(
            "plimsoll_extender_filtered_nodes",
            "Nodes rejected by filter responses; with mode observe, nodes that an observed policy would reject.",
            ["mode"],
            registry=registry,
        )
        for mode in ("enforce", "observe"):
            self.filtered_nodes.labels(mode)
