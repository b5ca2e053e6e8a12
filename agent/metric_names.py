"""Names that policies may use for a series."""

PREFIX = "node_"


def candidates(metric: str) -> tuple[str, str]:
    """Return the series names that a policy's metric name matches: `health_metric` and `node_health_metric`."""
    return metric, PREFIX + metric
