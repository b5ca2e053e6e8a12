"""Every metric of every collector, out of the tables in their modules."""

from collections.abc import Iterator
from functools import lru_cache

from collectors.base.metric import Metric
from collectors.base.registry import COLLECTORS

_KEPT = 1 << 12  # names; policies and rules ask about the same ones again and again


def rows() -> Iterator[tuple[str, Metric]]:
    """(collector, metric), in the order of the registry and of each table."""
    for name, entry in COLLECTORS.items():
        for metric in entry.metrics:
            yield name, metric


@lru_cache(_KEPT)
def collectors_of(metric: str) -> frozenset[str]:
    """The collectors that can yield a series of this name."""
    return frozenset(
        name
        for name, entry in COLLECTORS.items()
        if entry.open_ended or entry.metrics.find(metric) is not None
    )
