"""Running mean and covariance of pod requests; they tell few large pods from many equal ones.

The newest of n requests has the weight 1/n; from the hundredth on 1/100, so that old requests fade. With f = 1/n and
a new request d, the update of mean m and covariance C is C <- (1 - f) (C + f (d - m) (d - m)^T), m <- m + f (d - m).
It equals the update of the mean of products in exact arithmetic, without its cancellation for large, similar
requests.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evaluator.core.model.node_index import Floats
from evaluator.core.model.pod_demand import PodView, Resource

RESOURCES = (
    Resource.CPU,
    Resource.MEMORY,
    Resource.PODS,
    Resource.GPU,
    Resource.EPHEMERAL_STORAGE,
)
"""In order of importance."""

UNITS: Floats = np.array([1.0, 2.0**20, 1.0, 1.0, 2.0**30])
"""One unit of each: milli-CPU, MiB, pods, GPUs, GiB."""
UNITS.setflags(write=False)

WINDOW = 100
"""Number of requests from which on the weight of a new one is constant."""

REMEMBERED = 4096
"""Pods recognized when they are scheduled again: the newest. A pod that waits for long re-enters."""

LARGEST = 2.0**63
"""Larger requests are capped: Kubernetes uses 64 bits, and larger squares might overflow."""

_LEAST_CPU = 10.0
_LEAST_MEMORY = 16.0


def demand(pod: PodView) -> Floats:
    """Return a pod's requests for `RESOURCES` in `UNITS`; NaN for an invalid amount.

    Minimums apply to pods without requests: 10m CPU, 16 MiB of memory if less than 1 MiB is requested, and 1 pod.
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
    """Statistics of the requests seen so far; immutable: `seen` returns a new object."""

    count: int = 0
    """Number of requests, up to `WINDOW`."""
    mean: Floats | None = None
    """Means of `RESOURCES` in `UNITS`; None before the first request."""
    covariance: npt.NDArray[np.float64] | None = None
    """Covariance matrix of `RESOURCES`."""
    pods: tuple[str, ...] = ()
    """Counted pods by uid, or by name without one; at most `REMEMBERED`."""

    def seen(self, pod: PodView) -> "Demands":
        """Return the statistics with this pod; the same object if it is already counted or its requests are invalid."""
        identity = pod.uid or pod.name
        if identity and identity in self.pods:
            return self
        request = demand(pod)
        if np.isnan(request).any():
            return self
        pods = self.pods if not identity else (*self.pods, identity)[-REMEMBERED:]
        if self.mean is None or self.covariance is None:
            none = np.zeros((len(request), len(request)))
            return replace(self, count=1, mean=request, covariance=none, pods=pods)
        count = min(self.count + 1, WINDOW)
        share = 1.0 / count
        difference = request - self.mean
        return replace(
            self,
            count=count,
            mean=self.mean + share * difference,
            covariance=(1.0 - share) * (self.covariance + share * np.outer(difference, difference)),
            pods=pods,
        )
