"""What pods asked for, as one running mean and covariance: it tells whether there are few large pods or many alike.

The newest of n requests counts 1/n; from the hundredth on 1/100, so that what was asked for long ago is forgotten. Kept
are the mean m and the covariance C, and not the mean of the products: with f = 1/n and a new request d,
C <- (1 - f) (C + f (d - m) (d - m)^T), m <- m + f (d - m). That is the same in exact numbers, and nothing is lost where
large requests differ by little.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evaluator.model.node_index import Floats
from evaluator.model.pod_demand import PodView, Resource

RESOURCES = (
    Resource.CPU,
    Resource.MEMORY,
    Resource.PODS,
    Resource.GPU,
    Resource.EPHEMERAL_STORAGE,
)
"""In the order in which they count."""

UNITS: Floats = np.array([1.0, 2.0**20, 1.0, 1.0, 2.0**30])
"""What one is, of each: milli-CPU, MiB, pods, GPUs, GiB."""
UNITS.setflags(write=False)

WINDOW = 100
"""From so many requests on, the newest counts as much as it does then."""

REMEMBERED = 4096
"""Pods that are known again when they are tried once more: the newest, as a pod that waits for long comes among them again."""

LARGEST = 2.0**63
"""More is cut off: Kubernetes counts in 64 bits, and the square of more might be no number."""

_LEAST_CPU = 10.0
_LEAST_MEMORY = 16.0


def demand(pod: PodView) -> Floats:
    """What a pod asks for, of `RESOURCES`, in `UNITS`; NaN where it asks for what is no number.

    Who asks for nothing takes something all the same: cpu is at least 10m, memory that is below 1 MiB is 16 MiB, and pods
    are 1.
    """
    found = np.array([pod.requests.get(resource, 0.0) for resource in RESOURCES]) / UNITS
    found = np.clip(found, 0.0, LARGEST)
    if found[0] < _LEAST_CPU:
        found[0] = _LEAST_CPU
    if found[1] < 1.0:
        found[1] = _LEAST_MEMORY
    found[2] = 1.0
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """The requests seen. Never changes: `seen` gives another."""

    count: int = 0
    """How many, up to `WINDOW`."""
    mean: Floats | None = None
    """Of each of `RESOURCES`, in `UNITS`; None before the first."""
    covariance: npt.NDArray[np.float64] | None = None
    """A row and a column for each of them."""
    pods: tuple[str, ...] = ()
    """Who was counted, by uid, or by name where one has none; at most `REMEMBERED`."""

    def seen(self, pod: PodView) -> "Demands":
        """These, and this pod's. The same object where it was counted before, or asks for what is no number."""
        who = pod.uid or pod.name
        if who and who in self.pods:
            return self
        asked = demand(pod)
        if np.isnan(asked).any():
            return self
        pods = self.pods if not who else (*self.pods, who)[-REMEMBERED:]
        if self.mean is None or self.covariance is None:
            none = np.zeros((len(asked), len(asked)))
            return replace(self, count=1, mean=asked, covariance=none, pods=pods)
        count = min(self.count + 1, WINDOW)
        share = 1.0 / count
        apart = asked - self.mean
        return replace(
            self,
            count=count,
            mean=self.mean + share * apart,
            covariance=(1.0 - share) * (self.covariance + share * np.outer(apart, apart)),
            pods=pods,
        )
