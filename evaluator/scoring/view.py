"""What scorers look at: the nodes of the cluster with what they have, what is taken and what is used; and a pod.

Everything is an array over the nodes of `ClusterView.nodes`, in their order, or plain. NaN is "not known"; 0 is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from evaluator.nodes import Floats, Mask, Nodes
from evaluator.scoring.rewards import Rewards


class Resource(StrEnum):
    """What pods ask for, by Kubernetes' names; in milli-CPU, bytes, or pieces."""

    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"
    GPU = "nvidia.com/gpu"
    EPHEMERAL_STORAGE = "ephemeral-storage"


Amounts = Mapping[Resource, float]
"""What one pod asks for; a resource that it does not name is 0."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of one resource was free over a window, by measurement; NaN where nothing is known, or what is known is stale."""

    free: Floats
    """The mean."""
    deviation: Floats
    """The standard deviation; NaN where only the mean is known."""
    forecast: Floats
    """What is expected to be free; NaN where nobody says."""


@dataclass(frozen=True)
class ClusterView:
    """The cluster at one moment; never changes."""

    nodes: Nodes
    allocatable: Mapping[Resource, Floats] = field(default_factory=dict)
    requested: Mapping[Resource, Floats] = field(default_factory=dict)
    """Of all pods that are bound to a node and not finished."""
    unmeasured: Mapping[Resource, Floats] = field(default_factory=dict)
    """Of those among them that are younger than the window of `usage`, so that it does not show them yet."""
    usage: Mapping[Resource, Usage] = field(default_factory=dict)
    """For CPU and MEMORY."""
    congestion: Floats | None = None
    """0 (idle) to 1 (full), as agents measure it; NaN where not known."""
    annotations: Mapping[str, Floats] = field(default_factory=dict)
    """Numbers that operators or other programs annotated nodes with, by key; NaN where there is none, or no number."""
    rewards: Rewards = field(default_factory=Rewards)
    """Where kinds of pods did well."""

    @cached_property
    def unknown(self) -> Floats:
        """NaN for every node; not to be written to."""
        found = np.full(len(self.nodes), np.nan)
        found.setflags(write=False)
        return found

    def of(self, amounts: Mapping[Resource, Floats], resource: Resource) -> Floats:
        """One resource's amounts; not known where there are none."""
        return amounts.get(resource, self.unknown)


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod that is to be placed."""

    name: str = ""
    """namespace/name."""
    uid: str = ""
    kind: str = ""
    """What pods of its sort have in common: see `reward`."""
    requests: Amounts = field(default_factory=dict)
    """As kube-scheduler counts them: containers and sidecars, or the largest init container, and overhead."""
    peak: Amounts = field(default_factory=dict)
    """As kube-safe-scheduler counts them: containers, or any single init container that asks for more."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nodes that a pod must not go to, and why: in words that are constant, as kube-scheduler writes them into the pod."""

    where: Mask
    reason: str
