"""The metrics of the custom metrics API."""

from prometheus_client import CollectorRegistry, Counter


class ApiMetrics:
    """The metrics of the custom metrics API."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.custom_metrics_requests = Counter(
            "plimsoll_custom_metrics_requests",
            "Requests to the custom metrics API by resource and HTTP status.",
            ["resource", "code"],
            registry=registry,
        )
        self.custom_metrics_left_out = Counter(
            "plimsoll_custom_metrics_left_out_values",
            "Values left out of responses of the custom metrics API: a quantity cannot be NaN or infinite.",
            registry=registry,
        )
