"""Writes recorded/answers.json: answers of a sandbox's API server to the requests of the plugin, for its tests.

Run by `make headlamp-record`. tests/headlamp fails if a sandbox answers in another shape than recorded.
"""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from plimsoll.quantity import readable
from sandbox.client.client import ensure
from sandbox.client.objects import NAMESPACES, PODS, POLICIES
from sandbox.cluster import Cluster, ClusterSpec

RECORDED = Path(__file__).parent / "recorded"
TIMEOUT = 60.0
"""Seconds until the world is complete."""

Answers = dict[str, Any]
"""Path below the API server -> status and body."""

PROXY = "/api/v1/namespaces/plimsoll/services/http:plimsoll-evaluator:ops/proxy"
POLICY = "/apis/telemetry.intel.com/v1alpha1/taspolicies"
PATHS = (
    POLICY,
    "/apis/telemetry.intel.com/v1alpha1/namespaces/shop/taspolicies/responsive",
    "/api/v1/nodes/node-a",
    "/api/v1/nodes/node-b",
    "/api/v1/namespaces/shop/pods/web-1",
    "/api/v1/namespaces/shop/pods/web-2",
    f"{PROXY}/nodes/node-a.json",
    f"{PROXY}/nodes/node-b.json",
    f"{PROXY}/policies/shop/responsive.json",
    f"{PROXY}/pods/shop/web-1.json",
    f"{PROXY}/pods/shop/web-2.json",
    # Errors: no such node, policy and Service.
    f"{PROXY}/nodes/node-x.json",
    f"{PROXY}/policies/shop/none.json",
    PROXY.replace("plimsoll-evaluator", "other") + "/nodes/node-a.json",
)

READINGS = {
    "node-a": {"disk_wait_ratio": 61, "cpu_pressure_ratio": 12, "free_bytes": 3.5e9},
    "node-b": {"disk_wait_ratio": 4, "cpu_pressure_ratio": 55, "free_bytes": 2.127e10},
    "node-c": {"cpu_pressure_ratio": 12, "free_bytes": 2.127e10},
}
"""node-a violates a rule, `for` runs for node-b, and node-c lacks a reading."""

OBJECTS = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata:
  name: responsive
  namespace: shop
  annotations: {plimsoll.io/actions: "condition,taint,label"}
spec:
  strategies:
    dontschedule:
      rules:
        - {metricname: disk_wait_ratio, operator: GreaterThan, target: 30}
        - {metricname: cpu_pressure_ratio, operator: GreaterThan, target: 40, for: 10m}
    scheduleonmetric:
      rules:
        - {metricname: cpu_pressure_ratio, operator: LessThan}
    labeling:
      rules:
        - {metricname: free_bytes, operator: LessThan, target: 8Gi, labels: [memory=small]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {telemetry-policy: responsive}}
spec: &spec
  containers:
    - {name: web, image: web, resources: {limits: {telemetry/scheduling: "1"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, namespace: shop, labels: {telemetry-policy: responsive}}
spec:
  nodeSelector: {kubernetes.io/hostname: node-a}
  containers:
    - {name: web, image: web, resources: {limits: {telemetry/scheduling: "1"}}}
"""
_KINDS = {"Namespace": NAMESPACES, "TASPolicy": POLICIES, "Pod": PODS}

_METRICS = (
    *("free_bytes", "node_network_receive_bytes_total", "read_bytes_per_second", "cpu_hertz"),
    *(
        "boot_seconds",
        "cpu_used_cores",
        "temp_celsius",
        "power_watts_per_second",
        "load1",
        "x_total",
    ),
)
_VALUES = (
    *(
        0,
        1,
        -1,
        2.5,
        12.25,
        0.15,
        0.125,
        30.0001,
        999.96,
        1023.9999999,
        1024,
        3.5e9,
        2.127e10,
        1.5e15,
    ),
    *(5e-5, 59.99, 60, 90.5, 3600, 86400, 183600, 2e8, -90, 0.25, 1e20, 123456.789),
)
_TARGETS = ((6.0004, 6.0), (30.00001, 30.0), (90.0005, 90.0), (1.5e9 + 1, 1.5e9), (3.0, 3.0))


def texts() -> list[list[Any]]:
    """Return metrics, values, targets and the texts that the evaluator's pages show."""
    pairs = [*((value, None) for value in _VALUES), *_TARGETS]
    return [
        [metric, value, target, readable(metric, value, target)]
        for metric in _METRICS
        for value, target in pairs
    ]


@contextlib.asynccontextmanager
async def world(folder: Path) -> AsyncIterator[Cluster]:
    """Run a cluster in which every part of the plugin has something to show."""
    spec = ClusterSpec(dir=folder, nodes=tuple(READINGS), node_actions=True, sync_period=0.2)
    async with Cluster(spec) as cluster:
        for node, values in READINGS.items():
            lines = (f"node_{name} {value}\n" for name, value in values.items())
            (cluster.node_metrics(node) / "readings.prom").write_text("".join(lines))
        async with asyncio.timeout(TIMEOUT):
            for obj in yaml.safe_load_all(OBJECTS):
                if obj["kind"] == "Pod":  # without its policy, nothing would be decided about it
                    await _until(violated, cluster)
                await ensure(cluster.client, _KINDS[obj["kind"]], obj)
            await _until(complete, cluster)
        yield cluster


async def _until(is_met: Callable[[Answers], bool], cluster: Cluster) -> None:
    while True:
        if is_met(await answers(cluster)):
            return
        await asyncio.sleep(0.2)


async def answers(cluster: Cluster) -> Answers:
    """Return what the API server answers now."""
    found = {}
    async with aiohttp.ClientSession(cluster.endpoints.api) as session:
        for path in PATHS:
            async with session.get(path) as response:
                found[path] = {"status": response.status, "body": await response.json()}
    return found


def violated(found: Answers) -> bool:
    """Return whether the policy is decided."""
    policies = found[POLICY]["body"].get("items") or ()
    return any(policy.get("status", {}).get("compliance") == "Violated" for policy in policies)


def complete(found: Answers) -> bool:
    """Return whether all was decided, written and recorded: a label, taint and condition, both pods and their decisions."""
    node = found["/api/v1/nodes/node-a"]["body"]
    page, *pods = (
        found[f"{PROXY}/{name}.json"]["body"]
        for name in ("nodes/node-a", "pods/shop/web-1", "pods/shop/web-2")
    )
    records = page.get("past", {}).get("records", ())
    placed, refused = (pod.get("past", {}).get("decision") or {} for pod in pods)
    policies = found[POLICY]["body"].get("items") or ()
    return (
        violated(found)
        and [one["status"].get("pods", {}).get("following") for one in policies] == [2]
        and "responsive" in str(node["metadata"].get("labels"))
        and "plimsoll.io/" in str(node["spec"].get("taints"))
        and "plimsoll.io/" in str(node["status"].get("conditions"))
        and sum(record["kind"] == "written" for record in records) >= 3
        and "chosen" in placed
        and bool(refused.get("refusedNodes"))
        and pods[1].get("schedulerReason") == "Unschedulable"
    )


_BY_CHANCE = frozenset({"managedFields", "series"})
"""Fields that depend on which of two writes came first, and on whether a minute began since the start."""


def shape(value: Any) -> Any:
    """Return the types of a JSON value: objects by field, and of a list the fields and types that any entry has."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in sorted(value.items()) if key not in _BY_CHANCE}
    if isinstance(value, list):
        return [merged([shape(one) for one in value])]
    if isinstance(value, bool) or value is None:
        return str(type(value).__name__)
    return "text" if isinstance(value, str) else "number"


def merged(shapes: list[Any]) -> Any:
    """Return what several shapes have in common and apart."""
    if shapes and all(isinstance(one, dict) for one in shapes):
        keys = sorted({key for one in shapes for key in one})
        return {key: merged([one[key] for one in shapes if key in one]) for key in keys}
    if shapes and all(isinstance(one, list) for one in shapes):
        return [merged([one for inner in shapes for one in inner])]
    return sorted({json.dumps(one, sort_keys=True) for one in shapes})


async def main() -> int:
    """Write the records; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        async with world(Path(folder)) as cluster:
            found = await answers(cluster)
    for name, content in (("answers", found), ("readable", texts())):
        text = json.dumps(content, indent=1 if name == "answers" else None, sort_keys=True)
        (RECORDED / f"{name}.json").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
