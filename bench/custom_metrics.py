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

import asyncio
import json
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from bench import commandline
from bench.commandline import Line
from bench.timing import CallbackTimes, timed
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.model import pod_record
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.policy.decide import Decisions
from evaluator.core.readings.store import Store
from evaluator.features.custom_metrics.api import ApiMetrics, CustomMetricsApi
from evaluator.features.custom_metrics.lists import MetricLists, PodsByNamespace
from evaluator.features.custom_metrics.readings import CurrentReadings
from plimsoll import rfc3339
from plimsoll.http.types import Parts, Request, Response
from plimsoll.process import garbage
from wire.codec import Delta

ROOT = "/apis/custom.metrics.k8s.io/v1beta2"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
STEP = "longest_ms <= 5 loops"


class Bench:
    """Nodes that report one metric, pods of one namespace, and the API over them."""

    def __init__(self, nodes: int, metrics: int, pods: int, requests: int) -> None:
        self.rng = random.Random(1)
        self.requests = requests
        self.callbacks = CallbackTimes()
        self.names = [f"node-{number:05d}.example.com" for number in range(nodes)]
        self.served = tuple(sorted({"load", *(f"metric_{n}" for n in range(metrics))}))
        self.values: dict[str, float] = {}
        self.store = Store(stale_after=3600.0, started=time.monotonic())
        self.store.subscribe(["load"])
        self.store.reserve(nodes)
        cluster, inventory = ClusterCache(), PodsByNamespace()
        figures = ApiMetrics(CollectorRegistry())
        for number, name in enumerate(self.names):
            cluster.nodes.put(Node(NodeMeta(name=name, uid=name, labels={"zone": str(number % 2)})))
            self.report(name)
        for number in range(pods):
            inventory.change(None, _pod(number, self.names[number % nodes]))
        readings = CurrentReadings(
            self.store, lambda: cluster.names, Decisions, clock=time.monotonic, wall=time.time
        )
        lists = MetricLists(
            readings,
            cluster,
            inventory,
            left_out=figures.custom_metrics_left_out.inc,
            clock=time.monotonic,
        )
        self.api = CustomMetricsApi(lists, figures, served=lambda: self.served, missing=tuple)
        self.sizes = {"nodes": nodes, "pods": pods, "metrics": metrics}

    def report(self, name: str) -> None:
        """Report a new value of one node."""
        self.values[name] = self.rng.random() * 100
        self.store.report(name, Delta({"load": self.values[name]}), time.monotonic())

    def change(self) -> None:
        """Report a new value of any node."""
        self.report(self.rng.choice(self.names))

    async def run(self) -> AsyncIterator[Line]:
        """Yield the lines of all cases."""
        garbage.raise_thresholds()
        self.callbacks.watch()
        case = self.case
        every, zone = f"{ROOT}/nodes/*/load", {"labelSelector": ["zone=1"]}
        await self.get(every)
        naive, half = self.baseline(self.names), self.baseline(self.names[1::2])
        listed = f"cpu_ms <= 15 loops, {STEP}"
        yield await case("changed", listed, every, naive, before=self.change)
        yield await case("cached", f"cpu_ms <= 2 loops, {STEP}", every, naive)
        yield await case("selected", listed, every, half, query=zone)
        few = f"cpu_ms <= 5 loops, {STEP}"
        pods, web = f"{ROOT}/namespaces/default/pods/*/load", {"labelSelector": ["app=web"]}
        yield await case("pods", few, pods, None, query=web)
        node = f"{ROOT}/nodes/{self.names[-1]}/load"
        yield await case("node", "cpu_ms <= 0.5 loops", node, None)
        v2, other = {"accept": V2}, self.other_metrics
        yield await case("discovery", few, "/apis", None, before=other, headers=v2)
        etag = dict((await self.get("/apis", headers=v2)).headers)["etag"]
        known = {**v2, "if-none-match": etag}
        yield await case("unchanged", "cpu_ms <= 1 loops", "/apis", None, headers=known)

    def other_metrics(self) -> None:
        """Serve one more metric."""
        self.served = tuple(sorted({*self.served, f"metric_new_{len(self.served)}"}))

    async def case(
        self,
        case: str,
        aim: str,
        path: str,
        naive_ms: float | None,
        *,
        before: Callable[[], None] = lambda: None,
        query: Mapping[str, list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Line:
        """Send requests one after another, and return the line of the case. `naive_ms`: of the baseline."""
        times, size, longest = [], 0, 0.0
        for _ in range(self.requests):
            before()
            await asyncio.sleep(0)
            self.callbacks.taken.clear()
            begun = time.thread_time()
            response = await asyncio.create_task(self.get(path, query, headers))
            times.append((time.thread_time() - begun) * 1e3)
            longest = max([longest, *(seconds * 1e3 for seconds in self.callbacks.taken)])
            size = response.size
        spent = statistics.median(times)
        ratio = {} if naive_ms is None else {"cpu_ratio": round(naive_ms / spent, 1)}
        return {
            "benchmark": "custom_metrics",
            "case": case,
            "cpu_ms": round(spent, 3),
            **ratio,
            "longest_ms": round(longest, 2),
            "kilobytes": round(size / 1e3, 1),
            **self.sizes,
            "aim": aim,
        }

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
        times = [timed(self._naive_list, names)[1].cpu for _ in range(5)]
        return 1e3 * statistics.median(times)

    def _naive_list(self, names: list[str]) -> bytes:
        return _baseline({name: self.values[name] for name in names})


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


def measured(
    nodes: int = 5000, metrics: int = 200, pods: int = 1000, requests: int = 40
) -> AsyncIterator[Line]:
    """Yield the lines of all cases."""
    return Bench(nodes, metrics, pods, requests).run()


if __name__ == "__main__":
    commandline.run(measured)
