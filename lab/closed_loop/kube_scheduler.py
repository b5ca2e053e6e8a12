"""A model of kube-scheduler 1.36 with its default plugins: which nodes fit a pod, and the score of each.

The scores that can differ between equal nodes without taints, affinities and images are modelled, with the default weights:

- NodeResourcesFit, LeastAllocated, 1: the free share of CPU and memory after the pod, by requests; a pod without a request
  counts as 100m and 200 MiB.
- NodeResourcesBalancedAllocation, 1: whether the pod brings the requested shares of CPU and memory nearer to one another.
- PodTopologySpread, 2: its default constraint on the host name, for pods that a ReplicaSet owns; there is no zone.

All divisions are of integers, as there. TaintToleration, NodeAffinity, InterPodAffinity and ImageLocality give every such
node the same score, which changes no choice. Of several nodes with the highest sum one is chosen at random.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from evaluator.core.model.node_index import Positions
from lab.closed_loop.workload import Nodes, SimulatedPod

Scores = npt.NDArray[np.int64]

MAX_SCORE = 100
_SPREAD_WEIGHT = 2
_HOSTNAME_SKEW = 3
_MOST_PODS = 110
_UNREQUESTED = (100, 200 << 20)
"""CPU (millicores) and memory (bytes) that count for a pod without requests."""


class KubeScheduler:
    """The requests of bound and assumed pods per node, and the scores that follow from them."""

    def __init__(self, nodes: Nodes, rng: np.random.Generator) -> None:
        self._rng = rng
        self._capacity = np.array([int(nodes.cores * 1000), int(nodes.memory)])[:, None]
        self._requested = np.zeros((2, nodes.count), np.int64)
        self._nonzero = np.zeros((2, nodes.count), np.int64)
        self._pods = np.zeros(nodes.count, np.int64)
        self._owned: dict[str, Scores] = {}

    def feasible(self, pod: SimulatedPod) -> Positions:
        """Return the positions of the nodes that the pod fits on, by requests and number of pods."""
        after = self._requested + _request(pod)
        fits: Positions = (
            (after <= self._capacity).all(axis=0) & (self._pods < _MOST_PODS)
        ).nonzero()[0]
        return fits

    def scores(self, pod: SimulatedPod, feasible: Positions, *, by_requests: bool = True) -> Scores:
        """Return the weighted sum of the scores of these nodes, shape (feasible,).

        `by_requests`: with NodeResourcesFit and NodeResourcesBalancedAllocation, which some configurations switch off.
        """
        total: Scores = np.zeros(len(feasible), np.int64) + self._spread(pod, feasible)
        if not by_requests:
            return total
        total += self._least_allocated(pod, feasible)
        total += self._balanced(self._requested[:, feasible], _request(pod))
        return total

    def choose(self, feasible: Positions, scores: Scores) -> int:
        """Return the position of a node with the highest score."""
        best = feasible[scores == scores.max()]
        return int(best[self._rng.integers(len(best))])

    def assume(self, pod: SimulatedPod, node: int) -> None:
        """Count a pod on its node, from the moment it is chosen."""
        self._change(pod, node, 1)

    def forget(self, pod: SimulatedPod, node: int) -> None:
        """Count a pod no longer: it ended or was descheduled."""
        self._change(pod, node, -1)

    def _change(self, pod: SimulatedPod, node: int, sign: int) -> None:
        request = _request(pod)
        self._requested[:, node] += sign * request[:, 0]
        self._nonzero[:, node] += sign * _nonzero(request)[:, 0]
        self._pods[node] += sign
        if pod.owner:
            owned = self._owned.setdefault(pod.owner, np.zeros(len(self._pods), np.int64))
            owned[node] += sign

    def _least_allocated(self, pod: SimulatedPod, feasible: Positions) -> Scores:
        after = self._nonzero[:, feasible] + _nonzero(_request(pod))
        free: Scores = np.maximum(self._capacity - after, 0) * MAX_SCORE // self._capacity
        result: Scores = free.sum(axis=0) // 2
        return result

    def _balanced(self, allocated: Scores, request: Scores) -> Scores | int:
        if not request.any():
            return 0  # the plugin skips pods without any request
        change = self._balance(allocated + request) - self._balance(allocated)
        result: Scores = MAX_SCORE // 2 + (MAX_SCORE // 2 + change) // 2
        return result

    def _balance(self, requested: Scores) -> Scores:
        """Return 100 less the standard deviation of the requested shares in percent."""
        shares = np.minimum(requested / self._capacity, 1.0)
        deviation = np.abs(shares[0] - shares[1]) / 2
        balance: Scores = ((1 - deviation) * MAX_SCORE).astype(np.int64)
        return balance

    def _spread(self, pod: SimulatedPod, feasible: Positions) -> Scores | int:
        """Return the score of PodTopologySpread: fewer pods of the same ReplicaSet are better."""
        if not pod.owner:
            return 0
        owned = self._owned.get(pod.owner)
        counts = owned[feasible] if owned is not None else np.zeros(len(feasible))
        raw = np.rint(counts * np.log(len(feasible) + 2) + _HOSTNAME_SKEW - 1).astype(np.int64)
        highest = raw.max()
        result: Scores = _SPREAD_WEIGHT * (MAX_SCORE * (highest + raw.min() - raw) // highest)
        return result


def _request(pod: SimulatedPod) -> Scores:
    """Return millicores and bytes, shape (2, 1)."""
    return np.array([[round(pod.cpu * 1000)], [int(pod.memory)]])


def _nonzero(request: Scores) -> Scores:
    found: Scores = np.where(request > 0, request, np.array(_UNREQUESTED)[:, None])
    return found


def from_extender(scores: Mapping[int, int], feasible: Positions, weight: int) -> Scores:
    """Return an extender's scores 0..10 as kube-scheduler adds them: times its weight and 10; an absent node has 0."""
    return np.array([scores.get(node, 0) for node in feasible.tolist()]) * weight * 10
