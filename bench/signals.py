"""Time from a fault to a refused pod, with the real programs: from the kernel's record to a changed response for the scheduler.

Starts the cluster of `plimsoll demo signals`, injects faults into node-b, and calls the extender without a pause until it
refuses the node; then repairs it. Prints one JSON line for each fault, times in milliseconds from the record:

    hung    a line of the kernel's log, which is a problem; ended by an acknowledgement
    xid     a line of the kernel's log and the driver's verdict, by a recording rule of one second
    ext4    an error count in sysfs, by such a rule

    python -P bench/signals.py [--faults 30]
"""

import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from bench import commandline
from bench.commandline import Line
from bench.measure import latencies
from plimsoll import rfc3339
from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import NAMESPACES, NODES, POLICIES
from sandbox.cluster import Cluster
from sandbox.demo.signals import CONDITION, DEMO, NAMESPACE, POLICY, RULES
from sandbox.inject import inject, repair

NODE = "node-b"
AIM = "p99_ms <= 1000"
KINDS = ("hung", "xid", "ext4")
MANIFESTS = {
    "signals-demo/00-namespace.yaml": NAMESPACES,
    "signals-demo/10-policy.yaml": POLICIES,
}


async def measured(faults: int = 30) -> AsyncIterator[Line]:
    """Yield the line of each kind of fault, each injected this many times."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Cluster(DEMO.make_spec(Path(folder))) as cluster,
            aiohttp.ClientSession() as http,
        ):
            (cluster.rules / "gpus.yaml").write_text(RULES)
            for name, kind in MANIFESTS.items():
                for body in manifests.load(manifests.folder() / name):
                    await ensure(cluster.client, kind, body)
            for fault in KINDS:
                yield await _measure(cluster, http, fault, faults)


async def _measure(cluster: Cluster, http: aiohttp.ClientSession, kind: str, faults: int) -> Line:
    url = f"{cluster.endpoints.extender}/scheduler/filter"
    question = _filter_body(list(cluster.spec.nodes))
    times: list[float] = []
    rng = random.Random(1)
    while await _refused(http, url, question) is not False:
        pass
    for _ in range(faults + 1):
        # Not in phase with the agents; and later than the second of the last acknowledgement.
        await asyncio.sleep(rng.uniform(1, 2))
        begin = time.perf_counter()
        inject(cluster.dir, NODE, kind)
        while not await _refused(http, url, question):
            pass
        times.append(time.perf_counter() - begin)
        await _end(cluster, kind)
        while await _refused(http, url, question) is not False:
            pass
    times = times[1:]  # the first one may also wait for the rules
    return {
        "benchmark": "signals",
        "case": kind,
        "faults": len(times),
        **latencies(times, 1),
        "load": round(os.getloadavg()[0], 1),
        "aim": AIM,
    }


def _filter_body(nodes: list[str]) -> bytes:
    """Return ExtenderArgs for a pod of the policy, with node names (nodeCacheCapable)."""
    meta = {"name": "bench", "namespace": NAMESPACE, "labels": {"telemetry-policy": POLICY}}
    return json.dumps({"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": nodes}).encode()


async def _refused(http: aiohttp.ClientSession, url: str, question: bytes) -> bool | None:
    """Return whether the node is rejected; None while the evaluator is not ready."""
    headers = {"Content-Type": "application/json"}
    async with http.post(url, data=question, headers=headers) as response:
        answer = await response.json()
    return NODE in answer["FailedNodes"] if response.status == 200 else None


async def _end(cluster: Cluster, kind: str) -> None:
    if kind != "hung":
        repair(cluster.dir, NODE, kind)
        return
    annotations = {f"plimsoll.io/ack.{CONDITION}": f"{rfc3339.seconds(time.time())} bench"}
    await cluster.client.patch(NODES, NODE, {"metadata": {"annotations": annotations}})


if __name__ == "__main__":
    commandline.run(measured)
