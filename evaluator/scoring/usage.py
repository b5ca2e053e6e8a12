"""How much of a node was free, out of what agents measured; out of what other programs annotated it with, where agents are silent.

Agents tell what of the whole node is in use, its system included: free is what that leaves of the allocatable, and below 0
where the system takes more than was set aside for it. What is annotated bears no time, and nobody can tell whether it is
stale: so it is not mixed with what is measured, and stands in for a resource of a node as a whole, or not at all.
"""

from collections.abc import Mapping

import numpy as np

from evaluator.model import usage_metrics
from evaluator.model.node_index import Floats, fixed
from evaluator.model.pod_demand import Resource
from evaluator.scoring.snapshot import NodeUsageArrays

_METRICS = {
    Resource.CPU: (usage_metrics.CPU_MEAN, usage_metrics.CPU_DEVIATION, 1000.0),
    Resource.MEMORY: (usage_metrics.MEMORY_MEAN, usage_metrics.MEMORY_DEVIATION, 1.0),
}
"""The mean and deviation of what is in use, and how many of the resource's pieces make one of the metrics' units."""

_ANNOTATIONS = {
    Resource.CPU: (
        usage_metrics.MEAN_FREE_CPU,
        usage_metrics.STD_FREE_CPU,
        usage_metrics.FORECAST_FREE_CPU,
    ),
    Resource.MEMORY: (
        usage_metrics.MEAN_FREE_MEMORY,
        usage_metrics.STD_FREE_MEMORY,
        usage_metrics.FORECAST_FREE_MEMORY,
    ),
}
"""The mean, deviation and forecast of what is free."""


def usage(
    allocatable: Mapping[Resource, Floats],
    readings: Mapping[str, Floats],
    annotations: Mapping[str, Floats],
) -> dict[Resource, NodeUsageArrays]:
    """Of CPU and memory, per node. What a mapping lacks is not known of any node."""
    return {
        resource: _of(resource, capacity, readings, annotations)
        for resource, capacity in allocatable.items()
        if resource in _METRICS
    }


def congestion(readings: Mapping[str, Floats]) -> Floats | None:
    """Of the network, 0 to 1; None if it is not asked for."""
    found = readings.get(usage_metrics.CONGESTION)
    return None if found is None else _plausible(found)


def _of(
    resource: Resource,
    capacity: Floats,
    readings: Mapping[str, Floats],
    annotations: Mapping[str, Floats],
) -> NodeUsageArrays:
    unknown = np.full(len(capacity), np.nan)
    mean, deviation, pieces = _METRICS[resource]
    free = capacity - pieces * _plausible(readings.get(mean, unknown))
    spread = pieces * _plausible(readings.get(deviation, unknown))
    annotated = [annotations.get(name, unknown) for name in _ANNOTATIONS[resource]]
    silent = np.isnan(free)
    return NodeUsageArrays(
        fixed(np.where(silent, annotated[0], free)),
        fixed(np.where(silent, _plausible(annotated[1]), spread)),
        fixed(np.where(silent, annotated[2], np.nan)),
    )


def _plausible(values: Floats) -> Floats:
    """Without what no such amount can be: negative, or infinite."""
    return fixed(np.where(np.isfinite(values) & (values >= 0.0), values, np.nan))
