"""The metrics of evictions."""

from prometheus_client import CollectorRegistry, Counter


class EvictionMetrics:
    """The metrics of evictions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.evictions = Counter(
            "plimsoll_evictions",
            "Evictions requested, by policy and result.",
            ["namespace", "policy", "result"],
            registry=registry,
        )
