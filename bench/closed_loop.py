"""Time from a file on a node to a changed response for the scheduler, with the real programs.

Starts the sandbox, writes a file of node-b repeatedly, and calls the extender without a pause until the response changes:
once for a health metric, once for the input of a recording rule. Prints one JSON line for each, times in milliseconds.

    python -P bench/closed_loop.py [--changes 300]
"""

import asyncio
import json
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench import commandline
from bench.commandline import Line
from bench.measure import latencies
from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import NAMESPACES, POLICIES
from sandbox.cluster import Cluster, ClusterSpec

NODE = "node-b"
SYNC_PERIOD = 5.0  # the evaluator's default; the sandbox's own is shorter
RESOURCES = {"Namespace": NAMESPACES, "TASPolicy": POLICIES}
NAMESPACE = Path("health-metric-demo/00-namespace.yaml")


@dataclass(frozen=True)
class Case:
    """The content of a file, and the policy that the node then violates. `pause`: seconds, see `measure`."""

    name: str
    policy: str
    manifest: Path
    file: str
    sick: str
    well: str
    aim: str
    pause: float
    rules: Path | None = None


CASES = (
    Case(
        "file",
        "demo-policy",
        Path("health-metric-demo/10-policy.yaml"),
        "text.prom",
        "node_health_metric 1\n",
        "node_health_metric 0\n",
        aim="p99_ms <= 300 loops",
        pause=0.2,
    ),
    Case(
        "rule",
        "scratch-policy",
        Path("examples/scratch/policy.yaml"),
        "scratch.prom",
        "scratch_free_bytes 1e9\nscratch_size_bytes 100e9\n",
        "scratch_free_bytes 60e9\nscratch_size_bytes 100e9\n",
        aim="p99_ms <= 1500 loops",
        pause=1.0,
        rules=Path("examples/scratch/rules.yaml"),
    ),
)


async def measure(case: Case, changes: int) -> Line:
    """Return the milliseconds from writing the file to the changed response of filter, for this many changes."""
    with tempfile.TemporaryDirectory() as folder:
        spec = ClusterSpec(dir=Path(folder), sync_period=SYNC_PERIOD)
        async with Cluster(spec) as cluster, aiohttp.ClientSession() as http:
            if case.rules:
                shutil.copy(manifests.folder() / case.rules, cluster.rules)
            await apply(cluster, NAMESPACE, case.manifest)
            file = cluster.node_metrics(NODE) / case.file
            url = f"{cluster.endpoints.extender}/scheduler/filter"
            question = filter_body(case.policy, list(spec.nodes))
            times: list[float] = []
            rng = random.Random(1)
            for number in range(changes + 1):
                # Agents poll periodically; without a random pause, changes would be in phase with them.
                await asyncio.sleep(rng.uniform(0, case.pause))
                sick = number % 2 == 0
                begin = time.perf_counter()
                file.write_text(case.sick if sick else case.well)
                while await refused(http, url, question) is not sick:
                    pass
                times.append(time.perf_counter() - begin)
    times = times[1:]  # the first one also waits for the policy
    line = {"benchmark": "closed_loop", "case": case.name, "changes": len(times)}
    return {**line, **latencies(times, 1), "aim": case.aim}


async def apply(cluster: Cluster, *names: Path) -> None:
    """Create the namespaces and policies of manifests of the sandbox."""
    for name in names:
        for obj in manifests.load(manifests.folder() / name):
            await ensure(cluster.client, RESOURCES[obj["kind"]], obj)


async def refused(http: aiohttp.ClientSession, url: str, question: bytes) -> bool | None:
    """Return whether the node is rejected; None while the evaluator is not ready."""
    headers = {"Content-Type": "application/json"}
    async with http.post(url, data=question, headers=headers) as response:
        answer = await response.json()
    return NODE in answer["FailedNodes"] if response.status == 200 else None


def filter_body(policy: str, nodes: list[str], namespace: str = "health-metric-demo") -> bytes:
    """Return ExtenderArgs for a pod with a policy, with node names (nodeCacheCapable)."""
    meta = {
        "name": "bench",
        "namespace": namespace,
        "labels": {"telemetry-policy": policy},
    }
    return json.dumps({"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": nodes}).encode()


async def measured(changes: int = 300, recorded: int = 50) -> AsyncIterator[Line]:
    """Yield the line of each case. `changes`: of the health file; `recorded`: of the number."""
    for case, count in zip(CASES, (changes, recorded), strict=True):
        yield await measure(case, count)


if __name__ == "__main__":
    commandline.run(measured)
