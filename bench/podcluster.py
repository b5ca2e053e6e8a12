"""A cluster for scorers: nodes of one size with different loads, running pods, and new pods.

Deterministic.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bench import cluster
from evaluator.core.model import resources
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import ClusterSnapshot, NodeUsageArrays

CORES = 8
MEMORY = 16 << 30  # bytes
"""Capacity of a node of `bench.nodes`."""
PODS_EACH = 4
_SIZES = {Resource.CPU: CORES * 1000.0, Resource.MEMORY: float(MEMORY)}

Object = dict[str, Any]


class PodCluster:
    """Nodes with their usage and pods."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(1)
        self.names = cluster.names(count)
        self.free = {one: size * rng.uniform(0.02, 0.9, count) for one, size in _SIZES.items()}
        self.deviation = {
            one: size * rng.uniform(0.005, 0.1, count) for one, size in _SIZES.items()
        }
        self.congestion = rng.uniform(0, 1, count)
        self.requests = {
            one: np.round(size * rng.uniform(0.1, 0.2, count)) for one, size in _SIZES.items()
        }
        """Requests of each pod on a node."""

    def view(self) -> ClusterSnapshot:
        """Return the ClusterSnapshot."""
        count = len(self.names)
        unknown = np.full(count, np.nan)
        usage = {
            one: NodeUsageArrays(self.free[one], self.deviation[one], unknown) for one in _SIZES
        }
        taken = {one: PODS_EACH * each for one, each in self.requests.items()}
        return ClusterSnapshot(
            nodes=NodeIndex(self.names),
            allocatable={one: np.full(count, size) for one, size in _SIZES.items()}
            | {Resource.PODS: np.full(count, 110.0)},
            requested={**taken, Resource.PODS: np.full(count, float(PODS_EACH))},
            recently_bound={one: np.zeros(count) for one in _SIZES},
            usage=usage,
            congestion=self.congestion,
        )

    def readings(self) -> dict[str, dict[str, float]]:
        """Return the results of the shipped rules for each node, by metric, in cores, bytes and ratios."""
        used = {one: size - self.free[one] for one, size in _SIZES.items()}
        told = {
            resources.CPU_MEAN: used[Resource.CPU] / 1000.0,
            resources.CPU_DEVIATION: self.deviation[Resource.CPU] / 1000.0,
            resources.MEMORY_MEAN: used[Resource.MEMORY],
            resources.MEMORY_DEVIATION: self.deviation[Resource.MEMORY],
            resources.CONGESTION: self.congestion,
        }
        return {
            metric: dict(zip(self.names, values.tolist(), strict=True))
            for metric, values in told.items()
        }

    def pod_objects(self) -> Iterator[Object]:
        """Return the running pods."""
        for index, name in enumerate(self.names):
            cpu, memory = (self.requests[one][index] for one in _SIZES)
            for number in range(PODS_EACH):
                yield pod(f"web-{index}-{number}", cpu, memory, node=name)


def pod(name: str, cpu: float, memory: float, node: str = "") -> Object:
    """Return a pod with these requests in milli-CPU and bytes; if bound, since long ago."""
    resources = {"requests": {"cpu": f"{cpu:.0f}m", "memory": f"{memory:.0f}"}}
    since = {"creationTimestamp": "2026-03-02T08:14:05Z"}
    meta = {"name": name, "namespace": cluster.NAMESPACE, "uid": f"uid-{name}", **since}
    container = {"name": "web", "image": "example.com/web:1", "resources": resources}
    found: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "labels": {"app": "web"}},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }
    if node:
        found["spec"]["nodeName"] = node
        found["status"] = {"phase": "Running", "startTime": since["creationTimestamp"]}
    return found


def arrivals(seed: int = 1) -> Iterator[tuple[int, int]]:
    """Yield distinct requests of new pods in milli-CPU and bytes, so that no result is reused."""
    rng = random.Random(seed)
    while True:
        yield rng.randint(10, 1500), rng.randint(64 << 20, 4 << 30)


def pod_view(cpu: float, memory: float) -> PodView:
    """Return the PodView of a pod."""
    amounts = {Resource.CPU: cpu, Resource.MEMORY: memory, Resource.PODS: 1.0}
    return PodView("bench/web-new", "uid-web-new", "web", amounts)


def shuffled(names: Sequence[str]) -> list[str]:
    """Return all names in random order, as kube-scheduler sends them."""
    found = list(names)
    random.Random(2).shuffle(found)
    return found
