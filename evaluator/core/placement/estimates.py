"""What pods that a reading does not include yet add to it, per node.

| what is known of a pod | ranking | dontschedule |
|---|---|---|
| what pods of its policy added to the metric | the median | the median |
| its request of the resource that the metric measures | the request and half a standard deviation of the readings | the request |
| neither | the range of the readings: a node gets its next pod when all others have theirs | nothing |
| that pods do not move the metric | less than any difference: equal nodes take turns | nothing |

For a ranking, an estimate that is too small sends a burst to one node, and one that is too large only spreads it.

Of policies in other namespaces only requests count, at most what the node has: kube-scheduler counts these too, so that a
tenant can keep pods from a node no better than by its requests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex, fixed
from evaluator.core.model.resources import RESOURCES, Resource
from evaluator.core.model.resources import Allocatable as NodeAllocatable
from evaluator.core.placement.learned import Added
from evaluator.core.placement.ledger import Weighed
from evaluator.core.placement.measures import Load, Measure
from evaluator.core.policy.types import Operator

_UNVERIFIED = 0.5
"""Standard deviations of the readings that are added to a request which no trial confirmed."""
_LARGEST = 1e290
"""What a pod may add: sums over all pods stay finite."""
_TIE = 1e-6
"""Of the range of readings: the order of nodes with equal readings, and of no others."""


class Known(Protocol):
    """What was learned of pods."""

    def added_per_pod(self, policy: PolicyKey, metric: str) -> Added | None:
        """Return what a pod of a policy adds to a metric; None if that is not known."""
        ...


class Amounts(Protocol):
    """What nodes have."""

    def of_resource(self, resource: Resource) -> Floats:
        """Return the allocatable amount of each node, shape (nodes,); NaN if unknown."""
        ...


class Capacity:
    """What nodes have, as arrays over the nodes of a decision."""

    def __init__(self, of: Callable[[str], NodeAllocatable | None]) -> None:
        self._of = of
        self._nodes = NodeIndex()
        self._arrays: dict[Resource, Floats] = {}

    def over(self, nodes: NodeIndex) -> "Capacity":
        """Use these nodes from now on."""
        if nodes is not self._nodes:
            self._nodes, self._arrays = nodes, {}
        return self

    def changed(self) -> None:
        """A node's allocatable amounts changed."""
        self._arrays.clear()

    def of_resource(self, resource: Resource) -> Floats:
        """Return the allocatable amount of each node, shape (nodes,); NaN if unknown."""
        found = self._arrays.get(resource)
        if found is None:
            number = RESOURCES.index(resource)
            amounts = (self._of(node) for node in self._nodes)
            values = (np.nan if has is None else has[number] for has in amounts)
            found = np.fromiter(values, np.float64, len(self._nodes))
            self._arrays[resource] = fixed(found)
        return found


@dataclass(frozen=True, slots=True)
class MetricReadings:
    """The readings that pods are added to. `worse`: the direction, 1 or -1, in which a node is ranked lower."""

    policy: PolicyKey
    metric: str
    measure: Measure
    worse: float
    values: Floats
    at: Floats
    size: "Size"


class Size(NamedTuple):
    """How much the usable readings of a metric differ."""

    range: float
    deviation: float
    tie: float

    @classmethod
    def of_values(cls, values: Floats) -> "Size":
        """Return the differences of some values; those that are not finite are left out."""
        values = values[np.isfinite(values)]
        if not values.size:
            return cls(1.0, 0.0, _TIE)
        low, high = float(values.min()), float(values.max())
        with np.errstate(over="ignore"):
            spread, deviation = high - low, float(values.std())
        if not np.isfinite(spread) or not np.isfinite(deviation):
            spread = deviation = float(np.finfo(np.float64).max) / 1e6
        return cls(spread or 1.0, deviation, _TIE * (spread or max(abs(high), 1.0)))


def worse(operator: Operator) -> float:
    """Return the direction in which a rule ranks nodes lower: 1 if lower readings are better, else -1; 0 without an order."""
    return {Operator.LESS_THAN: 1.0, Operator.GREATER_THAN: -1.0}.get(operator, 0.0)


class Additions(NamedTuple):
    """What to add to the readings, shape (nodes,).

    `placed`: the number of pods on each node that count; one that was only recommended counts in parts on equal nodes.
    `own`: of `unbiased`, the part of the policy's namespace.
    """

    ranking: Floats
    unbiased: Floats
    placed: Floats
    own: Floats


def additions(
    found: Weighed,
    readings: MetricReadings,
    policies: Sequence[PolicyKey],
    learned: Known,
    allocatable: Amounts,
) -> Additions | None:
    """Return what the pods add to the readings of a policy's metric; None if they include all of them."""
    weights = _weights(found, readings)
    rows = weights.nonzero()[0]
    if not rows.size:
        return None
    nodes, weights, size = found.nodes[rows], weights[rows], len(readings.values)
    own = np.array([key.namespace == readings.policy.namespace for key in policies], np.bool_)
    owned = own[found.policies[rows]]
    capacity = _capacity(readings.measure, allocatable, size)[nodes]
    amounts, known, learnt = _amounts(found, rows, readings, policies, learned, capacity, owned)
    if readings.measure.share:
        amounts = np.divide(amounts, capacity, out=np.zeros_like(amounts), where=known)

    def summed(parts: Floats) -> Floats:
        return np.bincount(nodes, parts, size).astype(np.float64, copy=False)

    if owned.all():
        ours = unbiased = summed(weights * amounts)
    else:
        ours = summed(np.where(owned, weights * amounts, 0.0))
        others = summed(np.where(owned, 0.0, weights * amounts))
        unbiased = ours + _bounded(others, readings, allocatable)
    ranking = unbiased
    if readings.worse:
        slack = _slack(readings, amounts, known, learnt, owned)
        ranking = unbiased + readings.worse * summed(weights * slack)
    return Additions(ranking, unbiased, summed(found.shares[rows]), ours)


def _weights(found: Weighed, readings: MetricReadings) -> Floats:
    """Return which part of each entry the readings do not include; 0 on nodes that are not listed.

    A mean over a window includes a pod of an age within it by that share of the window.
    """
    listed = found.nodes >= 0
    seen = (readings.at[found.nodes] - found.at) / readings.measure.window
    left = np.maximum(np.minimum(1.0 - seen, 1.0), 0.0)  # np.clip takes three times as long
    return np.where(listed, found.shares * left, 0.0)


def _amounts(
    found: Weighed,
    rows: np.ndarray[tuple[int, ...], np.dtype[np.intp]],
    readings: MetricReadings,
    policies: Sequence[PolicyKey],
    learned: Known,
    capacity: Floats,
    owned: Mask,
) -> tuple[Floats, Mask, Mask]:
    """Return what each entry adds, in the metric's units times capacity for shares; where that is known; and where learned."""
    measure, of = readings.measure, found.policies[rows]
    declared = np.zeros(len(rows))
    if measure.resource is not None:
        declared = found.requests[rows, RESOURCES.index(measure.resource)]
        declared = np.fmin(declared, capacity)  # a NaN of these is left out
    amounts = declared * measure.per_unit
    known = declared > 0.0
    if measure.share:
        known &= capacity > 0.0
    learnt = np.zeros(len(rows), np.bool_)
    for number in set(of[owned].tolist()):
        added = learned.added_per_pod(policies[number], readings.metric)
        if added is None:
            continue
        mine = of == number
        amounts = np.where(mine, _plausible(added, declared, readings), amounts)
        learnt |= mine
    if measure.share:
        learnt &= capacity > 0.0
    return amounts, known | learnt, learnt


def _plausible(added: Added, declared: Floats, readings: MetricReadings) -> Floats:
    """Return what pods add as learned; never in the opposite direction of the resource, which would be noise."""
    found = np.full(len(declared), added.per_pod)
    if not np.isnan(added.per_request):
        found = np.where(declared > 0.0, declared * added.per_request, found)
    sign = np.sign(readings.measure.per_unit) or readings.worse
    return sign * np.clip(sign * found, 0.0, _LARGEST)


def _slack(
    readings: MetricReadings, amounts: Floats, known: Mask, learnt: Mask, owned: Mask
) -> Floats:
    """Return by how much each entry counts more in a ranking than what it probably adds."""
    size, measure = readings.size, readings.measure
    if measure.load is Load.NONE or measure.per_unit * readings.worse < 0.0:
        return np.where(
            owned, size.tie, 0.0
        )  # a node that fills is preferred, or pods do not matter
    unverified = np.where(known, _UNVERIFIED * size.deviation, size.range)
    slack = np.where(learnt, 0.0, unverified)
    return np.where(owned, slack + size.tie, 0.0)


def _capacity(measure: Measure, allocatable: Amounts, size: int) -> Floats:
    return (
        np.full(size, np.nan)
        if measure.resource is None
        else allocatable.of_resource(measure.resource)
    )


def _bounded(amounts: Floats, readings: MetricReadings, allocatable: Amounts) -> Floats:
    """Return the sums of other namespaces' requests, at most what each node has."""
    measure = readings.measure
    if measure.resource is None:
        return np.zeros_like(amounts)
    most = np.ones_like(amounts) if measure.share else allocatable.of_resource(measure.resource)
    most = np.abs(measure.per_unit) * np.where(np.isnan(most), np.inf, most)
    return np.clip(amounts, -most, most)
