"""CPU time of the custom metrics API: lists of all nodes and of a namespace's pods, single nodes, and discovery.

Runs the handler in this process, without network and authorization. Every callback of the event loop is timed: `longest_ms` is
the longest of a case. `cpu_ms` is the median of the CPU time of a request. The baseline makes the same list as dicts for
json.dumps; `cpu_ratio` is its figure divided by the handler's, in the same run. Prints one JSON line per case:

    changed     all nodes, after a reading has changed
    cached      all nodes again
    selected    all nodes with a label, half of them
    pods        a namespace's pods, by a label
    node        one node
    discovery   aggregated discovery after the metrics changed
    unchanged   the same with If-None-Match: 304

    python -P bench/custom_metrics.py [--nodes 5000] [--metrics 200] [--pods 1000] [--requests 40]
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from bench.measure import judged
from bench.stalls import Stretches
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.model import pod_record
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.policy.decide import Decisions
from evaluator.core.readings.store import Store
from evaluator.core.runtime import gc_tuning
from evaluator.features.custom_metrics.api import CustomMetricsApi
from evaluator.features.custom_metrics.lists import MetricLists
from evaluator.features.custom_metrics.metrics import ApiMetrics
from evaluator.features.custom_metrics.pods_by_namespace import PodsByNamespace
from evaluator.features.custom_metrics.readings import CurrentReadings
from plimsoll import logs, rfc3339
from plimsoll.http.types import Parts, Request, Response
from wire.codec import Delta

ROOT = "/apis/custom.metrics.k8s.io/v1beta2"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
STEP = "longest_ms <= 5 loops"


class Bench:
    """Nodes that report one metric, pods of one namespace, and the API over them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.rng = random.Random(1)
        self.requests = given.requests
        self.names = [f"node-{number:05d}.example.com" for number in range(given.nodes)]
        self.served = tuple(sorted({"load", *(f"metric_{n}" for n in range(given.metrics))}))
        self.values: dict[str, float] = {}
        self.store = Store(stale_after=3600.0, started=time.monotonic())
        self.store.subscribe(["load"])
        self.store.reserve(given.nodes)
        cluster, pods = ClusterCache(), PodsByNamespace()
        metrics = ApiMetrics(CollectorRegistry())
        for number, name in enumerate(self.names):
            cluster.nodes.put(Node(NodeMeta(name=name, uid=name, labels={"zone": str(number % 2)})))
            self.report(name)
        for number in range(given.pods):
            pods.change(None, _pod(number, self.names[number % given.nodes]))
        readings = CurrentReadings(
            self.store, lambda: cluster.names, Decisions, clock=time.monotonic, wall=time.time
        )
        lists = MetricLists(
            readings,
            cluster,
            pods,
            left_out=metrics.custom_metrics_left_out.inc,
            clock=time.monotonic,
        )
        self.api = CustomMetricsApi(lists, metrics, served=lambda: self.served, missing=tuple)
        self.sizes = {"nodes": given.nodes, "pods": given.pods, "metrics": given.metrics}

    def report(self, name: str) -> None:
        """Report a new value of one node."""
        self.values[name] = self.rng.random() * 100
        self.store.report(name, Delta({"load": self.values[name]}), time.monotonic())

    def change(self) -> None:
        """Report a new value of any node."""
        self.report(self.rng.choice(self.names))

    async def run(self) -> None:
        """Run all cases."""
        gc_tuning.raise_thresholds()
        stretches = Stretches()
        stretches.watch()
        every, zone = f"{ROOT}/nodes/*/load", {"labelSelector": ["zone=1"]}
        pods = f"{ROOT}/namespaces/default/pods/*/load"
        await self.get(every)
        naive = self.baseline(self.names)
        half = self.baseline(self.names[1::2])
        await self.case(
            stretches, "changed", f"cpu_ms <= 15 loops, {STEP}", every, naive, before=self.change
        )
        await self.case(stretches, "cached", f"cpu_ms <= 2 loops, {STEP}", every, naive)
        await self.case(
            stretches, "selected", f"cpu_ms <= 15 loops, {STEP}", every, half, query=zone
        )
        web = {"labelSelector": ["app=web"]}
        await self.case(stretches, "pods", f"cpu_ms <= 5 loops, {STEP}", pods, None, query=web)
        node = f"{ROOT}/nodes/{self.names[-1]}/load"
        await self.case(stretches, "node", "cpu_ms <= 0.5 loops", node, None)
        await self.case(
            stretches,
            "discovery",
            f"cpu_ms <= 5 loops, {STEP}",
            "/apis",
            None,
            before=self.other_metrics,
            headers={"accept": V2},
        )
        etag = dict((await self.get("/apis", headers={"accept": V2})).headers)["etag"]
        known = {"accept": V2, "if-none-match": etag}
        await self.case(stretches, "unchanged", "cpu_ms <= 1 loops", "/apis", None, headers=known)

    def other_metrics(self) -> None:
        """Serve one more metric."""
        self.served = tuple(sorted({*self.served, f"metric_new_{len(self.served)}"}))

    async def case(
        self,
        stretches: Stretches,
        case: str,
        aim: str,
        path: str,
        naive_ms: float | None,
        *,
        before: Callable[[], None] = lambda: None,
        query: Mapping[str, list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send requests one after another, and print the line of the case. `naive_ms`: of the baseline."""
        times, size, longest = [], 0, 0.0
        for _ in range(self.requests):
            before()
            await asyncio.sleep(0)
            stretches.taken.clear()
            begun = time.thread_time()
            response = await asyncio.create_task(self.get(path, query, headers))
            times.append((time.thread_time() - begun) * 1e3)
            longest = max([longest, *(seconds * 1e3 for seconds in stretches.taken)])
            size = response.size
        spent = statistics.median(times)
        ratio = {} if naive_ms is None else {"cpu_ratio": round(naive_ms / spent, 1)}
        line = {
            "benchmark": "custom_metrics",
            "case": case,
            "cpu_ms": round(spent, 3),
            **ratio,
            "longest_ms": round(longest, 2),
            "kilobytes": round(size / 1e3, 1),
            **self.sizes,
        }
        print(json.dumps(judged(line, aim)), flush=True)

    async def get(
        self,
        path: str,
        query: Mapping[str, list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a response with its whole body read. Raises RuntimeError for an error status."""
        response = await self.api.answer(Request("GET", path, query or {}, headers or {}))
        if response.status >= 400:
            raise RuntimeError(f"{path}: {response.status} {response.body!r}")
        if isinstance(response.body, Parts):
            for _ in response.body.parts:
                pass
        return response

    def baseline(self, names: list[str]) -> float:
        """Return the CPU time in ms of a list made of dicts, with json.dumps."""
        times = []
        for _ in range(5):
            begun = time.thread_time()
            _baseline({name: self.values[name] for name in names})
            times.append((time.thread_time() - begun) * 1e3)
        return statistics.median(times)


def _baseline(values: Mapping[str, float]) -> bytes:
    items: list[dict[str, Any]] = [
        {
            "describedObject": {"kind": "Node", "name": name, "apiVersion": "/v1"},
            "metric": {"name": "load", "selector": None},
            "timestamp": rfc3339.seconds(time.time()),
            "value": f"{round(value * 1000)}m",
        }
        for name, value in values.items()
    ]
    version = "custom.metrics.k8s.io/v1beta2"
    return json.dumps(
        {"kind": "MetricValueList", "apiVersion": version, "metadata": {}, "items": items}
    ).encode()


def _pod(number: int, node: str) -> pod_record.PodRecord:
    """Return a running pod; every tenth has the label app=web."""
    app = "web" if number % 10 == 0 else f"app-{number % 100}"
    pod = {
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": str(number),
            "labels": {"app": app, "pod-template-hash": "abcdef"},
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }
    return pod_record.decode(msgspec.Raw(json.dumps(pod).encode()), labels=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000, help="in the cluster (default 5000)")
    parser.add_argument("--metrics", type=int, default=200, help="in discovery (default 200)")
    parser.add_argument("--pods", type=int, default=1000, help="of the namespace (default 1000)")
    parser.add_argument("--requests", type=int, default=40, help="of each case (default 40)")
    given = parser.parse_args()
    logs.setup("error")
    asyncio.run(Bench(given).run())


if __name__ == "__main__":
    main()
