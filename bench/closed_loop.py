"""How long it takes from a health file on a node to a changed answer for the scheduler, through the real programs.

Starts the sandbox's cluster, writes node-b's health file again and again, and asks the extender without a pause until
its answer has changed. Prints one JSON line, times in milliseconds.

    python -P bench/closed_loop.py [--changes 300]
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp

from plimsoll import logs
from sandbox import manifests
from sandbox.client import ensure
from sandbox.objects import NAMESPACES, POLICIES
from sandbox.up import Cluster, ClusterSpec

NODE = "node-b"
SYNC_PERIOD = 5.0  # the evaluator's default; the sandbox's own is shorter
RESOURCES = {"Namespace": NAMESPACES, "TASPolicy": POLICIES}


async def measure(changes: int) -> dict[str, float | int | str]:
    """Milliseconds from writing the file to the changed filter answer, over this many changes."""
    with tempfile.TemporaryDirectory() as folder:
        spec = ClusterSpec(dir=Path(folder), sync_period=SYNC_PERIOD)
        async with Cluster(spec) as cluster, aiohttp.ClientSession() as http:
            for name in ("00-namespace.yaml", "10-policy.yaml"):
                for obj in manifests.load(manifests.folder() / "health-metric-demo" / name):
                    await ensure(cluster.client, RESOURCES[obj["kind"]], obj)
            health = cluster.node_metrics(NODE) / "text.prom"
            url = f"{cluster.endpoints.extender}/scheduler/filter"
            question = filter_body(list(spec.nodes))
            times: list[float] = []
            rng = random.Random(1)
            for number in range(changes + 1):
                # The agent looks every 100 ms; without a pause of random length each change would come just after a look.
                await asyncio.sleep(rng.uniform(0, 0.2))
                sick = number % 2 == 0
                begin = time.perf_counter()
                health.write_text(f"node_health_metric {int(sick)}\n")
                while await refused(http, url, question) is not sick:
                    pass
                times.append((time.perf_counter() - begin) * 1000)
    times = sorted(times[1:])  # the first one waits for the policy to arrive as well
    return {
        "benchmark": "closed_loop",
        "changes": len(times),
        "p50_ms": round(statistics.median(times), 1),
        "p99_ms": round(times[int(0.99 * (len(times) - 1))], 1),
        "max_ms": round(times[-1], 1),
        "aim": "p99_ms <= 300",
    }


async def refused(http: aiohttp.ClientSession, url: str, question: bytes) -> bool | None:
    """Whether the node is turned away now; None while the evaluator has nothing to decide on."""
    headers = {"Content-Type": "application/json"}
    async with http.post(url, data=question, headers=headers) as response:
        answer = await response.json()
    return NODE in answer["FailedNodes"] if response.status == 200 else None


def filter_body(nodes: list[str]) -> bytes:
    """ExtenderArgs for a pod that follows the demo's policy, as kube-scheduler writes them with nodeCacheCapable."""
    meta = {
        "name": "bench",
        "namespace": "health-metric-demo",
        "labels": {"telemetry-policy": "demo-policy"},
    }
    return json.dumps({"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": nodes}).encode()


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--changes", type=int, default=300, help="how many (default 300)")
    arguments = parser.parse_args()
    logs.setup("error")
    print(json.dumps(asyncio.run(measure(arguments.changes))))


if __name__ == "__main__":
    main()
