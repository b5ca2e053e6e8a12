"""The names of series that a policy's metric means: the prefix `node_` is optional on either side."""

PREFIX = "node_"


def spellings(metric: str) -> tuple[str, ...]:
    """Return the names of series that a metric's name in a policy matches, the preferred one first.

    `load1` matches `load1` and `node_load1`; `node_load1` matches itself, and `load1` on nodes without it.
    """
    if not metric.startswith(PREFIX):
        return metric, PREFIX + metric
    bare = metric.removeprefix(PREFIX)
    return (metric, bare) if bare else (metric,)
