"""The metrics of requeued pods."""

from prometheus_client import CollectorRegistry, Counter


class RequeueMetrics:
    """The metrics of requeued pods."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nudges = Counter(
            "plimsoll_nudges",
            "Rejected pods requeued because a node may take them, by result.",
            ["result"],
            registry=registry,
        )
        for result in ("ok", "error"):
            self.nudges.labels(result)
