"""The pod as scorers see it, and the resources that it requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Resource(StrEnum):
    """Requested resources by their Kubernetes names; in milli-CPU, bytes or units."""

    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"
    GPU = "nvidia.com/gpu"
    EPHEMERAL_STORAGE = "ephemeral-storage"


Amounts = Mapping[Resource, float]
"""Requests of one pod; an absent resource is 0."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod to be scheduled."""

    name: str = ""
    """namespace/name."""
    uid: str = ""
    kind: str = ""
    """The kind of workload, shared by similar pods: see `reward`."""
    requests: Amounts = field(default_factory=dict)
    """Effective requests as in kube-scheduler: containers and sidecars, or the largest init container, plus overhead."""
