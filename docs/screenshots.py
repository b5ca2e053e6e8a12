"""Writes docs/images/*.png: pages of the evaluator of a sandbox, in Debian's chromium; `make screenshots`.

Six nodes, two of them unhealthy, one with a running timer and one without a reading, so that the pages show each state.
"""

import asyncio
import itertools
import shutil
import sys
import tempfile
from pathlib import Path

import aiohttp
import yaml
from playwright.async_api import async_playwright

from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import DEPLOYMENTS, NAMESPACES, POLICIES, ObjectKind
from sandbox.cluster import Cluster, ClusterSpec

IMAGES = Path(__file__).parent / "images"
LARGEST = 150_000
"""Bytes of an image."""
WIDTH = 1100
TIMEOUT = 60.0
"""Seconds until the pages show everything."""

PAGES = {
    "overview": ("", 690),
    "policy": ("policies/shop/responsive", 960),
    "node": ("nodes/node-c", 690),
    "history": ("history?by=node&since=1m", 700),
}
"""Name of the image -> path and height in pixels."""
NODES = tuple(f"node-{letter}" for letter in "abcdef")
_SECONDS = 8
"""Between two changes."""
KINDS = {"Namespace": NAMESPACES, "TASPolicy": POLICIES, "Deployment": DEPLOYMENTS}
MANIFESTS = (
    *(f"health-metric-demo/{name}.yaml" for name in ("00-namespace", "10-policy", "20-deployment")),
    *(f"node-actions-demo/{name}.yaml" for name in ("00-namespace", "10-policy")),
)
OWN = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: responsive, namespace: shop}
spec:
  strategies:
    dontschedule:
      rules:
        - {metricname: disk_wait_ratio, operator: GreaterThan, target: 30}
        - {metricname: cpu_pressure_ratio, operator: GreaterThan, target: 40, for: 10m}
    scheduleonmetric:
      rules:
        - {metricname: cpu_pressure_ratio, operator: LessThan}
"""
HEALTHY = {
    "node_health_metric": 0,
    "node_disk_errors": 0,
    "node_disk_wait_ratio": 4,
    "node_cpu_pressure_ratio": 12,
}
READINGS = {
    "node-b": {"node_cpu_pressure_ratio": 55},
    "node-c": {"node_health_metric": 1, "node_disk_errors": 3, "node_disk_wait_ratio": 61},
    "node-e": {"node_disk_wait_ratio": None},
    "node-f": {"node_health_metric": 2},
}
"""What differs from HEALTHY; None: no reading."""


async def main() -> int:
    """Write the images; return the exit status."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not on PATH: apt install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        spec = ClusterSpec(dir=Path(folder), nodes=NODES, node_actions=True, sync_period=1.0)
        async with Cluster(spec) as cluster, async_playwright() as playwright:
            await _fill(cluster)
            await _wait(cluster)
            await _flap(cluster)
            browser = await playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            page = await browser.new_page(color_scheme="light")
            IMAGES.mkdir(exist_ok=True)
            for name, (path, height) in PAGES.items():
                await page.set_viewport_size({"width": WIDTH, "height": height})
                await page.goto(f"{cluster.endpoints.ops}/{path}")
                await page.screenshot(path=IMAGES / f"{name}.png")
            await browser.close()
    too_large = [path for path in IMAGES.glob("*.png") if path.stat().st_size > LARGEST]
    for path in too_large:
        print(f"{path} has more than {LARGEST} bytes", file=sys.stderr)
    return 1 if too_large else 0


async def _fill(cluster: Cluster) -> None:
    shipped = (manifests.load(manifests.folder() / name) for name in MANIFESTS)
    for obj in (*itertools.chain.from_iterable(shipped), *yaml.safe_load_all(OWN)):
        kind: ObjectKind = KINDS[obj["kind"]]
        await ensure(cluster.client, kind, obj)
    for node in NODES:
        values = {**HEALTHY, **READINGS.get(node, {})}
        lines = (f"{name} {value}\n" for name, value in values.items() if value is not None)
        (cluster.node_metrics(node) / "readings.prom").write_text("".join(lines))


async def _flap(cluster: Cluster) -> None:
    """Let one node violate a rule now and then, so that timelines have something to show."""
    for wait in (61, 4, 61, 4):
        values = {**HEALTHY, "node_disk_wait_ratio": wait}
        text = "".join(f"{name} {value}\n" for name, value in values.items())
        (cluster.node_metrics("node-d") / "readings.prom").write_text(text)
        await asyncio.sleep(_SECONDS)


async def _wait(cluster: Cluster) -> None:
    """Wait until the readings are judged and the labels and taints are written."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(TIMEOUT):
        while True:
            async with session.get(f"{cluster.endpoints.ops}/nodes/node-c.json") as response:
                text = await response.text()
            if "plimsoll.io/" in text and "shop/responsive" in text:
                break
            await asyncio.sleep(0.5)
        await asyncio.sleep(3)  # some seconds of age look more usual than none


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
