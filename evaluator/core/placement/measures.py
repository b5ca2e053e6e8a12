"""Which resource of pods a metric of nodes measures, in which unit, over which window.

Metrics of this project and the usual names elsewhere are read word by word: `node_memory_used_mean_5m_bytes` is memory in
use, in bytes, over 5 minutes; `cpu_headroom_ratio` is the free share of a node's CPUs.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from evaluator.core.catalog import Catalog, CatalogEntry
from evaluator.core.model.resources import Resource
from plimsoll.metric_names import PREFIX

LONGEST_WINDOW = 900.0
"""Seconds. A longer window is that of a count of events, which placing a pod does not move."""
SHORTEST_WINDOW = 5.0
"""Seconds from the binding of a pod to a reading that includes it: its containers start, and use is a rate."""


class Load(StrEnum):
    """How pods move a metric."""

    RESOURCE = "resource"
    """By the resource that it measures."""
    NONE = "none"
    """Not at all: a count of errors, a level of health, a temperature."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Measure:
    """What a metric measures.

    `per_unit`: metric per unit of the resource (milli-CPU, byte, unit), negative if the metric is what is free.
    `share`: of the node's allocatable amount. `window`: seconds over which the metric is a mean, at least SHORTEST_WINDOW.
    """

    load: Load = Load.UNKNOWN
    resource: Resource | None = None
    per_unit: float = 0.0
    share: bool = False
    window: float = SHORTEST_WINDOW


_UNITS_OF = {Resource.CPU: 1000.0}
"""Units of a resource in one unit of a metric; 1 for bytes and counts."""
_RESOURCES = {
    "cpu": Resource.CPU,
    "cpus": Resource.CPU,
    "memory": Resource.MEMORY,
    "mem": Resource.MEMORY,
    "gpu": Resource.GPU,
    "gpus": Resource.GPU,
    "pods": Resource.PODS,
}
_USED = frozenset({"used", "use", "usage", "util", "utilisation", "utilization", "busy", "running"})
_FREE = frozenset({"free", "available", "headroom", "idle"})
_AMOUNTS = {"cores": Resource.CPU, "cpus": Resource.CPU, "pods": Resource.PODS}
"""Units of amounts that name the resource."""
_SHARES = {"ratio": 1.0, "share": 1.0, "percent": 100.0, "percentage": 100.0}
_DISTINCT = frozenset(
    {
        *("bandwidth", "deviation", "gtt", "highest", "limit", "numa", "peak", "pressure", "speed"),
        *("stalled", "stddev", "swap", "throttled", "total", "vram", "waiting"),
    }
)
"""Words that make it another quantity, although the name also has a resource and a unit."""
_KNOWN = {
    "load1": Measure(Load.RESOURCE, Resource.CPU, 1e-3, window=60.0),
    "load5": Measure(Load.RESOURCE, Resource.CPU, 1e-3, window=300.0),
    "load15": Measure(Load.RESOURCE, Resource.CPU, 1e-3, window=900.0),
    "memory_MemAvailable_bytes": Measure(Load.RESOURCE, Resource.MEMORY, -1.0),
    "memory_MemFree_bytes": Measure(Load.RESOURCE, Resource.MEMORY, -1.0),
    "filesystem_root_headroom_ratio": Measure(
        Load.RESOURCE, Resource.EPHEMERAL_STORAGE, -1.0, share=True
    ),
}
"""Metrics whose names do not say it."""
_EVENTS = frozenset(
    {
        *("errors", "exceptions", "lockups", "tasks", "rules", "pages", "celsius"),
        *("0 or 1", "0, 1 or 2", "as the input"),
    }
)
"""Units of shipped metrics that pods do not move."""
_STATES = frozenset({"condition", "problem", "score"})
"""Words of metrics that say how a node is, not what its pods use: node_condition_Hot, violation_score_web."""
_WINDOW = re.compile(r"(\d{1,4})(s|m|h)", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Measures:
    """What metrics measure, by name; `catalog` is called when the first one is looked up."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        self._catalog = catalog
        self._known: dict[str, Measure] = {}

    def measure_of(self, metric: str) -> Measure:
        """Return what a metric measures. Cached: policies limit the number of metrics."""
        found = self._known.get(metric)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[metric] = measure(metric, self._catalog().find(metric))
        return found


_MOST_KNOWN = 4096


def measure(metric: str, entry: CatalogEntry | None) -> Measure:
    """Return what a metric measures; `entry`: that of the shipped metric of this name."""
    name = metric.removeprefix(PREFIX)
    words = re.split(r"[_-]", name)
    window = entry.window if entry is not None else _window(words)
    found = _KNOWN.get(name)
    if found is None and ":" not in name:  # what compares a node with its peers is no amount
        found = _of_words([word.lower() for word in words])
    if found is None:
        is_state = not _STATES.isdisjoint(words)
        is_event = entry is not None and entry.unit in _EVENTS
        still = is_state or is_event or window > LONGEST_WINDOW
        found = Measure(Load.NONE if still else Load.UNKNOWN)
    if found.load is Load.NONE:
        return found
    return replace(found, window=min(max(window, found.window), LONGEST_WINDOW))


def _of_words(words: list[str]) -> Measure | None:
    """Return the measure that a name says; None if it does not."""
    free, used = not _FREE.isdisjoint(words), not _USED.isdisjoint(words)
    if free is used or not _DISTINCT.isdisjoint(words):
        return None
    named = {_RESOURCES[word] for word in words if word in _RESOURCES}
    if _AMOUNTS.get(words[-1]):
        named.add(_AMOUNTS[words[-1]])
    if len(named) != 1:
        return None
    (resource,) = named
    sign = -1.0 if free else 1.0
    if (full := _SHARES.get(words[-1])) is not None:
        return Measure(Load.RESOURCE, resource, sign * full, share=True)
    if _AMOUNTS.get(words[-1]) or (words[-1], resource) == ("bytes", Resource.MEMORY):
        return Measure(Load.RESOURCE, resource, sign / _UNITS_OF.get(resource, 1.0))
    return None


def _window(words: list[str]) -> float:
    """Return the longest duration in a name (seconds); 0 without one."""
    found = (_WINDOW.fullmatch(word) for word in words)
    return max((float(m[1]) * _SECONDS[m[2]] for m in found if m), default=0.0)


def shown(amount: float, found: Measure) -> str:
    """Return an amount of a metric with the unit of what it measures: `1.2 cores`, `15 % of the node`."""
    if found.resource is None:
        return f"{amount:.3g}"
    if found.share:
        return f"{100 * amount / abs(found.per_unit):.2g} % of the node"
    units, name = _SHOWN.get(found.resource, (1.0, found.resource.value))
    return f"{amount / abs(found.per_unit) / units:.3g} {name}"


_SHOWN: Mapping[Resource, tuple[float, str]] = {
    Resource.CPU: (1000.0, "cores"),
    Resource.MEMORY: (float(1 << 30), "GiB"),
    Resource.EPHEMERAL_STORAGE: (float(1 << 30), "GiB"),
}
"""How many units of a resource are one of the unit that texts use."""
