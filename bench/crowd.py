"""A cluster for scorers: nodes of one size with different loads, the pods that make them, and pods that come.

The same in each run.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bench import cluster
from evaluator.model import usage_metrics
from evaluator.model.node_index import NodeIndex
from evaluator.model.pod_demand import PodView, Resource
from evaluator.scoring.snapshot import ClusterSnapshot, NodeUsageArrays

CORES = 8
MEMORY = 16 << 30  # bytes
"""Of a node of `bench.nodes`."""
PODS_EACH = 4
_SIZES = {Resource.CPU: CORES * 1000.0, Resource.MEMORY: float(MEMORY)}

Object = dict[str, Any]


class Crowd:
    """So many nodes, and what is known of each."""

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
        """Of each of the pods on a node."""

    def view(self) -> ClusterSnapshot:
        """As scorers see it."""
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
        """What the shipped recording rules say of each node, by metric: in cores, bytes and shares."""
        used = {one: size - self.free[one] for one, size in _SIZES.items()}
        told = {
            usage_metrics.CPU_MEAN: used[Resource.CPU] / 1000.0,
            usage_metrics.CPU_DEVIATION: self.deviation[Resource.CPU] / 1000.0,
            usage_metrics.MEMORY_MEAN: used[Resource.MEMORY],
            usage_metrics.MEMORY_DEVIATION: self.deviation[Resource.MEMORY],
            usage_metrics.CONGESTION: self.congestion,
        }
        return {
            metric: dict(zip(self.names, values.tolist(), strict=True))
            for metric, values in told.items()
        }

    def pod_objects(self) -> Iterator[Object]:
        """Those that run there."""
        for index, name in enumerate(self.names):
            cpu, memory = (self.requests[one][index] for one in _SIZES)
            for number in range(PODS_EACH):
                yield pod(f"web-{index}-{number}", cpu, memory, node=name)


def pod(name: str, cpu: float, memory: float, node: str = "") -> Object:
    """One that asks for so many milli-CPU and bytes; if it is on a node, it has run there since long ago."""
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
    """Milli-CPU and bytes of pods that come: no two alike, so that no answer to one is one to another."""
    rng = random.Random(seed)
    while True:
        yield rng.randint(10, 1500), rng.randint(64 << 20, 4 << 30)


def pod_view(cpu: float, memory: float) -> PodView:
    """As scorers see one."""
    amounts = {Resource.CPU: cpu, Resource.MEMORY: memory, Resource.PODS: 1.0}
    return PodView("bench/web-new", "uid-web-new", "web", amounts)


def asked(names: Sequence[str]) -> list[str]:
    """All of them in no order, as kube-scheduler has them."""
    found = list(names)
    random.Random(2).shuffle(found)
    return found
