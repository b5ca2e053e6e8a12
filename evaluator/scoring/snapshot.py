"""What scorers look at: the nodes of the cluster with what they have, what is taken and what is used; and a pod.

Everything is an array over the nodes of `ClusterView.nodes`, in their order, or plain. NaN is "not known"; 0 is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evaluator.model.node_index import Floats, Mask, NodeIndex, fixed
from evaluator.model.pod_demand import Resource
from evaluator.scoring.demand import Demands
from evaluator.scoring.rewards import Rewards


@dataclass(frozen=True, slots=True)
class NodeUsageArrays:
    """How much of one resource was free over a window, by measurement; NaN where nothing is known, or what is known is stale."""

    free: Floats
    """The mean."""
    deviation: Floats
    """The standard deviation; NaN where only the mean is known."""
    forecast: Floats
    """What is expected to be free; NaN where nobody says."""


@dataclass(frozen=True)
class ClusterSnapshot:
    """The cluster at one moment; never changes."""

    nodes: NodeIndex
    allocatable: Mapping[Resource, Floats] = field(default_factory=dict)
    requested: Mapping[Resource, Floats] = field(default_factory=dict)
    """Of all pods that are bound to a node and not finished."""
    recently_bound: Mapping[Resource, Floats] = field(default_factory=dict)
    """Of those among them that are younger than the window of `usage`, so that it does not show them yet."""
    usage: Mapping[Resource, NodeUsageArrays] = field(default_factory=dict)
    """For CPU and MEMORY."""
    congestion: Floats | None = None
    """0 (idle) to 1 (full), as agents measure it; NaN where not known."""
    readings: Mapping[str, Floats] = field(default_factory=dict)
    """Of each metric that a scorer takes: NaN where there is none, or what there is cannot be used, as it is stale."""
    annotations: Mapping[str, Floats] = field(default_factory=dict)
    """Numbers that operators or other programs annotated nodes with, by key; NaN where there is none, or no number."""
    rewards: Rewards = field(default_factory=Rewards)
    """Where kinds of pods did well."""
    demands: Demands = field(default_factory=Demands)
    """What pods asked for, until before the one that is to be placed."""

    @cached_property
    def unknown(self) -> Floats:
        """NaN for every node; not to be written to."""
        return fixed(np.full(len(self.nodes), np.nan))

    def of(self, amounts: Mapping[Resource, Floats], resource: Resource) -> Floats:
        """One resource's amounts; not known where there are none."""
        return amounts.get(resource, self.unknown)


@dataclass(frozen=True, slots=True)
class NodeRejection:
    """Nodes that a pod must not go to, and why: in words that are constant, as kube-scheduler writes them into the pod."""

    where: Mask
    reason: str
