"""The metrics of node labels."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class LabelMetrics:
    """The metrics of node labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.label_writes = Counter(
            "plimsoll_label_writes",
            "Writes of node labels by result.",
            ["result"],
            registry=registry,
        )
        self.label_conflicts = Gauge(
            "plimsoll_label_conflicts",
            "Node labels that are not set because another field manager owns them.",
            registry=registry,
        )
