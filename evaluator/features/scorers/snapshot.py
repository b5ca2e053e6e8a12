"""The cluster snapshot that scorers read: capacity, requests and usage of nodes.

Everything is a scalar or an array over `ClusterSnapshot.nodes`, in order. NaN means unknown; 0 is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evaluator.core.model.node_index import Floats, Mask, NodeIndex, fixed
from evaluator.core.model.pod_demand import Resource
from evaluator.features.scorers.demand import Demands
from evaluator.features.scorers.rewards import Rewards


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
