"""The catalog of all metrics, from the tables in the collectors' modules."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from collectors.interface.metric import Metric
from collectors.registry.registry import COLLECTORS

_KEPT = 1 << 12  # cached names; policies and rules use the same ones repeatedly


def rows() -> Iterator[tuple[str, Metric]]:
    """Yield (collector, metric) in the order of the registry and of each table."""
    for name, entry in COLLECTORS.items():
        for metric in entry.metrics:
            yield name, metric


@lru_cache(_KEPT)
def collectors_of(metric: str) -> frozenset[str]:
    """Return the collectors that can yield a series of this name."""
    return frozenset(name for name, entry in COLLECTORS.items() if entry.can_yield(metric))


def slow(collectors: Iterable[str]) -> frozenset[str]:
    """Return those of these collectors whose values rules may reuse for some seconds."""
    return frozenset(name for name in collectors if COLLECTORS[name].slow)
