"""The cluster snapshot that scorers read: capacity, requests and usage of nodes.

Everything is a scalar or an array over `ClusterSnapshot.nodes`, in order. NaN means unknown; 0 is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evaluator.core.model import usage_metrics
from evaluator.core.model.node_index import Floats, Mask, NodeIndex, fixed
from evaluator.core.model.pod_demand import Resource
from evaluator.features.scorers.demand import Demands
from evaluator.features.scorers.learning.rewards import Rewards

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


@dataclass(frozen=True, slots=True)
class NodeUsageArrays:
    """The measured free amount of one resource over a window; NaN if unknown or stale."""

    free: Floats
    """The mean."""
    deviation: Floats
    """The standard deviation; NaN where only the mean is known."""
    forecast: Floats
    """The forecast; NaN if there is none."""


@dataclass(frozen=True)
class ClusterSnapshot:
    """The cluster at one moment; immutable."""

    nodes: NodeIndex
    allocatable: Mapping[Resource, Floats] = field(default_factory=dict)
    requested: Mapping[Resource, Floats] = field(default_factory=dict)
    """Requests of all bound, unfinished pods."""
    recently_bound: Mapping[Resource, Floats] = field(default_factory=dict)
    """Requests of pods bound within the window of `usage`, which does not include them yet."""
    usage: Mapping[Resource, NodeUsageArrays] = field(default_factory=dict)
    """For CPU and MEMORY."""
    congestion: Floats | None = None
    """0 (idle) to 1 (full), as measured by agents; NaN if unknown."""
    readings: Mapping[str, Floats] = field(default_factory=dict)
    """Readings of each metric that scorers use; NaN if missing or stale."""
    annotations: Mapping[str, Floats] = field(default_factory=dict)
    """Numeric node annotations by key; NaN if absent or not a number."""
    rewards: Rewards = field(default_factory=Rewards)
    """Learned rewards of kinds of pods."""
    demands: Demands = field(default_factory=Demands)
    """Request statistics of the pods before the current one."""

    @cached_property
    def unknown(self) -> Floats:
        """NaN for every node; read-only."""
        return fixed(np.full(len(self.nodes), np.nan))

    def of(self, amounts: Mapping[Resource, Floats], resource: Resource) -> Floats:
        """Return one resource's amounts; NaN if absent."""
        return amounts.get(resource, self.unknown)


@dataclass(frozen=True, slots=True)
class NodeRejection:
    """Rejected nodes and the reason: constant text, as kube-scheduler writes it into pod events."""

    where: Mask
    reason: str


def measured_usage(
    allocatable: Mapping[Resource, Floats],
    readings: Mapping[str, Floats],
    annotations: Mapping[str, Floats],
) -> dict[Resource, NodeUsageArrays]:
    """Return the free CPU and memory per node; NaN where neither agents nor annotations give it.

    Agents measure usage of the whole node including system daemons; free is allocatable minus usage, and negative if
    the system uses more than its reservation. Annotations have no timestamp and may be stale: they replace measurements
    of a resource completely, or are not used.
    """
    return {
        resource: _of(resource, capacity, readings, annotations)
        for resource, capacity in allocatable.items()
        if resource in _METRICS
    }


def measured_congestion(readings: Mapping[str, Floats]) -> Floats | None:
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
