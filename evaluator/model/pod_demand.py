"""What scorers look at of a pod, and the resources that it asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
class PodView:
    """A pod that is to be placed."""

    name: str = ""
    """namespace/name."""
    uid: str = ""
    kind: str = ""
    """What pods of its sort have in common: see `reward`."""
    requests: Amounts = field(default_factory=dict)
    """As kube-scheduler counts them: containers and sidecars, or the largest init container, and overhead."""
