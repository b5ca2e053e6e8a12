"""Free resources of nodes: measured by agents, or else from node annotations.

Agents measure usage of the whole node including system daemons; free is allocatable minus usage, and negative if the
system uses more than its reservation. Annotations have no timestamp and may be stale: they replace measurements of a
resource completely, or are not used.
"""

from collections.abc import Mapping

import numpy as np

from evaluator.core.model import usage_metrics
from evaluator.core.model.node_index import Floats, fixed
from evaluator.core.model.pod_demand import Resource
from evaluator.features.scorers.snapshot import NodeUsageArrays

_METRICS = {
    Resource.CPU: (usage_metrics.CPU_MEAN, usage_metrics.CPU_DEVIATION, 1000.0),
    Resource.MEMORY: (usage_metrics.MEMORY_MEAN, usage_metrics.MEMORY_DEVIATION, 1.0),
}
"""Metrics of mean usage and its deviation, and the factor from the metric's unit to the resource's."""

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
"""Annotations of the mean, deviation and forecast of free resources."""


def usage(
    allocatable: Mapping[Resource, Floats],
    readings: Mapping[str, Floats],
    annotations: Mapping[str, Floats],
) -> dict[Resource, NodeUsageArrays]:
    """Return the free CPU and memory per node. Absent data is unknown."""
    return {
        resource: _of(resource, capacity, readings, annotations)
        for resource, capacity in allocatable.items()
        if resource in _METRICS
    }


def congestion(readings: Mapping[str, Floats]) -> Floats | None:
    """Return the network congestion, 0 to 1; None if the metric is not collected."""
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
    """Return the values with NaN in place of negative and infinite ones."""
    return fixed(np.where(np.isfinite(values) & (values >= 0.0), values, np.nan))
