"""The names by which policies may call a series."""

PREFIX = "node_"


def candidates(metric: str) -> tuple[str, str]:
    """The series that a policy's metric name stands for: `health_metric` is `health_metric` or `node_health_metric`."""
    return metric, PREFIX + metric
