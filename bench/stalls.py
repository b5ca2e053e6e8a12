"""How long the evaluator blocks its event loop: the CPU time of the longest callback.

Runs the decision loop, the store and the ops pages in this process, without network, agents and writers: 5,000 nodes, 1,000
metrics, 100 policies of 100 rules. Every callback of the loop is timed. Prints one JSON line per case, in milliseconds of
CPU time, which is reliable on a busy machine:

    start       the first decisions, before any node has reported, then while all nodes send their first report
    rest        all nodes confirm their readings once a second
    readings    the same, and one node in a hundred reports other values each second
    explain     the same, while the pages of all policies are requested in turn
    explain-pods   the same, while those of pods and nodes are requested
    browser     the same, while the pages for a browser are requested, as HTML
    metrics     the same, while /metrics is requested, with gzip

    python -P bench/stalls.py [--nodes 5000] [--metrics 1000] [--policies 100] [--rules 100] [--seconds 6]
"""

import argparse
import asyncio
import gc
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from bench.measure import judged
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.http.ops import OpsServer
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.names import POLICY_LABEL, PolicyKey
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.pod import Pod, PodMeta, PodSpec, PodStatus
from evaluator.core.policy.parse import parse
from evaluator.core.policy.types import Policy
from evaluator.core.readings.store import Store
from evaluator.core.runtime import gc_tuning
from evaluator.features.pages.feature import routes
from evaluator.features.pages.reports import Reports
from evaluator.features.pages.sources import PageSources
from plimsoll import logs
from plimsoll.http.types import Request
from wire.codec import Delta

CHANGING = 0.01
AIM = "longest_ms <= 5 loops"


class Stretches:
    """The CPU time of every callback of an event loop, in seconds."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    def watch(self) -> None:
        """Start timing."""
        handle: Any = asyncio.Handle
        run = handle._run  # noqa: SLF001 (the loop has no hook for it)

        def timed(callback: asyncio.Handle) -> None:
            begun = time.thread_time()
            run(callback)
            self.taken.append(time.thread_time() - begun)

        handle._run = timed  # noqa: SLF001

    async def line(self, case: str, **sizes: int) -> None:
        """Print the figures since the last line. The callback that does so is not counted."""
        taken, self.taken = sorted(self.taken), []
        found = {
            "longest_ms": round(taken[-1] * 1e3, 2),
            "p999_ms": round(taken[int(0.999 * len(taken))] * 1e3, 2),
            "over_5_ms": sum(seconds > 0.005 for seconds in taken),
            "callbacks": len(taken),
        }
        print(
            json.dumps(judged({"benchmark": "stalls", "case": case, **found, **sizes}, AIM)),
            flush=True,
        )
        await asyncio.sleep(0)
        self.taken.clear()


def policies(count: int, metrics: int, rules: int) -> list[Policy]:
    """Return policies with this many rules, a third in each strategy except scheduleonmetric."""
    rng = random.Random(2)

    def some(*, labels: bool) -> dict[str, Any]:
        return {
            "rules": [
                {
                    "metricname": f"metric_{rng.randrange(metrics)}",
                    "operator": "GreaterThan",
                    "target": rng.choice((50, 94, 99)),
                    **({"labels": [f"level{number % 10}=v{number}"]} if labels else {}),
                }
                for number in range(max(1, rules // 3))
            ]
        }

    return [
        parse(
            {
                "metadata": {"namespace": "bench", "name": f"policy-{number}", "uid": f"{number}"},
                "spec": {
                    "strategies": {
                        "dontschedule": some(labels=False),
                        "deschedule": some(labels=False),
                        "labeling": some(labels=True),
                    }
                },
            }
        )
        for number in range(count)
    ]


def _pod(policy: PolicyKey) -> Pod:
    """Return a waiting pod of a policy."""
    meta = PodMeta(
        name=f"of-{policy.name}",
        namespace=policy.namespace,
        labels={POLICY_LABEL: policy.name},
    )
    return Pod(meta, PodSpec(requests_extender=True), PodStatus("Pending"))


class Bench:
    """The cases; each builds on the previous one."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.names = [f"node-{number:05d}.example.com" for number in range(given.nodes)]
        self.metrics = [f"metric_{number}" for number in range(given.metrics)]
        self.seconds = given.seconds
        self.sizes = {
            "nodes": given.nodes,
            "metrics": given.metrics,
            "policies": given.policies,
            "rules": given.rules,
        }
        self.rng = np.random.default_rng(1)
        cluster, figures = ClusterCache(), Metrics()
        self.store = Store(stale_after=60.0, started=time.monotonic())
        self.decider = DecisionLoop(cluster, self.store, Subscriptions(), figures)
        self.operations = OpsServer(
            self.decider,
            figures,
            pages=routes(Reports(PageSources(self.decider, cluster, clock=time.monotonic))),
        )
        cluster.policies.replace(policies(given.policies, given.metrics, given.rules))
        cluster.nodes.replace([Node(NodeMeta(name=name, uid=name)) for name in self.names])
        cluster.pods.replace([_pod(key) for key in cluster.policies.objects])
        self.pages = [f"/explain/{key.namespace}/{key.name}" for key in cluster.policies.objects]
        self.queries = [
            *({"pod": [f"bench/of-{key.name}"]} for key in cluster.policies.objects),
            {"node": [self.names[0]]},
            {"nodes": [""]},
            {},
        ]

    @property
    def browser(self) -> list[tuple[str, dict[str, list[str]]]]:
        """The pages for a browser: path and query."""
        node, everything = self.names[0], {"state": ["all"]}
        return [
            ("/", {}),
            ("/policies/bench/policy-0", {}),
            ("/policies/bench/policy-1", everything | {"search": ["9"]}),
            ("/nodes", {}),
            ("/nodes", everything | {"page": ["9"]}),
            (f"/nodes/{node}", {}),
            ("/pods", {}),
            ("/pods/bench/of-policy-0", {}),
            ("/rules", {}),
        ]

    async def run(self) -> None:
        """Run all cases."""
        stretches = Stretches()
        gc_tuning.raise_thresholds()
        gc.collect()
        stretches.watch()
        loop = asyncio.create_task(self.decider.run())
        self.decider.touch()
        await self._decided()
        for name in self.names:
            self.report(name)
            await asyncio.sleep(0)
        await self._decided()
        await stretches.line("start", **self.sizes)
        reporting = asyncio.create_task(self.confirm())
        await asyncio.sleep(self.seconds)
        await stretches.line("rest", **self.sizes)
        changing = asyncio.create_task(self.change())
        await asyncio.sleep(self.seconds)
        await stretches.line("readings", **self.sizes)
        await self.reading(lambda number: self.get(self.pages[number % len(self.pages)]))
        await stretches.line("explain", **self.sizes)
        queries = self.queries
        await self.reading(lambda number: self.get("/explain", queries[number % len(queries)]))
        await stretches.line("explain-pods", **self.sizes)
        browser = self.browser
        await self.reading(lambda number: self.get(*browser[number % len(browser)]))
        await stretches.line("browser", **self.sizes)
        await self.reading(lambda _number: self.get("/metrics"))
        await stretches.line("metrics", **self.sizes)
        for task in (loop, reporting, changing):
            task.cancel()

    async def _decided(self) -> None:
        before = self.decider.latest
        swapped = asyncio.Event()
        self.decider.listeners.append(swapped.set)
        while self.decider.latest is before:
            await swapped.wait()
            swapped.clear()
        self.decider.listeners.remove(swapped.set)

    def report(self, name: str) -> None:
        """Report new values of all metrics."""
        values = (self.rng.random(len(self.metrics)) * 100).tolist()
        self.store.report(
            name, Delta(dict(zip(self.metrics, values, strict=True))), time.monotonic()
        )
        self.decider.touch()

    async def confirm(self) -> None:
        """Confirm the readings of every node once a second."""
        while True:
            for number, name in enumerate(self.names):
                self.store.report(name, Delta(), time.monotonic())
                if number % 50 == 0:
                    await asyncio.sleep(50 / len(self.names))

    async def change(self) -> None:
        """Change one node in a hundred each second."""
        pause = 1 / max(1.0, CHANGING * len(self.names))
        while True:
            self.report(self.names[int(self.rng.integers(len(self.names)))])
            await asyncio.sleep(pause)

    async def reading(self, read: Callable[[int], Awaitable[None]]) -> None:
        """Request pages for the duration of a case."""
        until, number = time.monotonic() + self.seconds, 0
        while time.monotonic() < until:
            await read(number)
            number += 1

    async def get(self, path: str, query: dict[str, list[str]] | None = None) -> None:
        """Render one page of the ops port. Raises RuntimeError for an error status."""
        headers = {"accept-encoding": "gzip"}
        response = await self.operations.answer(Request("GET", path, query or {}, headers))
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000, help="in the cluster (default 5000)")
    parser.add_argument("--metrics", type=int, default=1000, help="of each (default 1000)")
    parser.add_argument("--policies", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--rules", type=int, default=100, help="of each policy (default 100)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each case (default 6)")
    given = parser.parse_args()
    logs.setup("error")
    asyncio.run(Bench(given).run())


if __name__ == "__main__":
    main()
