"""The metrics of the history."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class HistoryMetrics:
    """The metrics of the history."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.size = Gauge(
            "plimsoll_history_size_bytes", "Memory that the history takes.", registry=registry
        )
        self.records = Gauge("plimsoll_history_records", "Records kept.", registry=registry)
        self.dropped = Counter(
            "plimsoll_history_dropped_records",
            "Records dropped because of --historySize or --historyAge.",
            registry=registry,
        )
