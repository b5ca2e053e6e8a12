"""The scorer interface: the protocol, its result, and the snapshot of the cluster that scorers read.

Everything of the snapshot is a scalar or an array over `ClusterSnapshot.nodes`, in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evaluator.core.model import resources
from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import Mask, NodeIndex, fixed
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.rewards import Rewards

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
_METRICS = {
    Resource.CPU: (resources.CPU_MEAN, resources.CPU_DEVIATION, 1000.0),
    Resource.MEMORY: (resources.MEMORY_MEAN, resources.MEMORY_DEVIATION, 1.0),
}
"""Metrics of mean usage and its deviation, and the factor from the metric's unit to the resource's."""

_ANNOTATIONS = {
    Resource.CPU: (
        resources.MEAN_FREE_CPU,
        resources.STD_FREE_CPU,
        resources.FORECAST_FREE_CPU,
    ),
    Resource.MEMORY: (
        resources.MEAN_FREE_MEMORY,
        resources.STD_FREE_MEMORY,
        resources.FORECAST_FREE_MEMORY,
    ),
}
"""Annotations of the mean, deviation and forecast of free resources."""
BEST = 10
"""kube-scheduler's MaxExtenderPriority."""
POLICIES = "policies"
"""Name of the policies' extender among scorers, in --scorerWeights and /explain."""


def demand(pod: PodView) -> Floats:
    """Return a pod's requests for `RESOURCES` in `UNITS`; NaN for an invalid amount.

    Minimums apply to pods without requests: 10m CPU, 16 MiB of memory if less than 1 MiB is requested, and 1 pod.
    """
    amounts = np.array([pod.requests.get(resource, 0.0) for resource in RESOURCES]) / UNITS
    amounts = np.clip(amounts, 0.0, LARGEST)
    if amounts[0] < _LEAST_CPU:
        amounts[0] = _LEAST_CPU
    if amounts[1] < 1.0:
        amounts[1] = _LEAST_MEMORY
    amounts[2] = 1.0
    return amounts


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
    congestion = readings.get(resources.CONGESTION)
    return None if congestion is None else _plausible(congestion)


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


Scores = npt.NDArray[np.int64]
"""0 to 10 for each node of the snapshot."""


@dataclass(frozen=True, slots=True)
class ScorerResult:
    """A scorer's result for one pod over all nodes. Predicates and priorities that are absent do not affect nodes."""

    refusals: Mapping[str, Sequence[NodeRejection]] = field(default_factory=dict)
    """By predicate. If several reject a node, the first reason counts."""
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """By priority."""
    facts: Mapping[str, Floats] = field(default_factory=dict)
    """Inputs and intermediate values for /explain, NaN if unknown."""
    missing: Mask | None = None
    """The nodes with missing inputs; None if there are none. The host counts them; the scorer's own `WhenMissing` decides
    whether they are in `refusals`.
    """


class Scorer(Protocol):
    """Scores nodes. Pure: the same snapshot and pod give the same result; no I/O, no clock, no state."""

    @property
    def predicates(self) -> Sequence[str]:
        """The names of its filters; the first is that of /scorers/<name>/filter."""
        ...

    @property
    def priorities(self) -> Sequence[str]:
        """The names of its scores; the first is that of /scorers/<name>/prioritize."""
        ...

    @property
    def metrics(self) -> Sequence[str]:
        """The node metrics that it needs; agents report them."""
        ...

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Return the result for all nodes of the snapshot. It may depend on the pod's kind and requests only: results
        are cached by them.
        """
        ...


class WhenMissing(StrEnum):
    """How a scorer treats nodes with missing inputs; values of a flag."""

    IGNORE = "ignore"
    """The node passes with the scorer's score for unknown nodes."""
    REFUSE = "refuse"
    """The node is rejected with a reason."""


def when_missing(text: str) -> WhenMissing:
    """Return the WhenMissing of a flag's text. Raises ValueError for any other text."""
    try:
        return WhenMissing(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of {', '.join(WhenMissing)}") from None
