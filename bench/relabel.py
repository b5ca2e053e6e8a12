"""Time to label thousands of nodes that start violating a policy at once, and latency of a policy edit meanwhile.

The real evaluator with an API server in a separate process; every node has a stream. All nodes violate a policy at once,
later none does; meanwhile another policy is edited, and the extender is called until its response changes. Prints one JSON
line, times in seconds. Readings are only reported when they change.

    python -P bench/relabel.py [--nodes 5000] [--kube-qps 200] [--control-plane]

--control-plane: on kube-apiserver and etcd of this machine ($KUBEBUILDER_ASSETS).
"""

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench import commandline
from bench.commandline import Line
from bench.fleet import Fleet
from bench.fleetagent import Habits
from bench.stage import Plane, Stage, real_plane, sandbox_plane, until
from sandbox.client.client import Client
from sandbox.client.objects import NODES
from sandbox.controllers.nodes import node_object

LABELLING, EDITED = "relabel", "relabel-edited"
AT_ONCE = 16
PAUSE = 1.0  # seconds between two edits
STEADY = Habits(interval=600.0, share=0.0, value=0.0)


async def create_nodes(client: Client, names: list[str]) -> None:
    """Create nodes on which no pod is scheduled."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def create(name: str) -> None:
        body = {**node_object(name, 0, now=time.time()), "spec": {"unschedulable": True}}
        async with gate:
            await client.create(NODES, body)

    await asyncio.gather(*map(create, names))


class Bench:
    """The evaluator under load, and its clients."""

    def __init__(self, stage: Stage, nodes: list[str]) -> None:
        self.stage = stage
        self.nodes = nodes
        self.edits: list[float] = []

    async def written(self) -> float:
        """Return the number of label writes."""
        return await self.stage.metric('plimsoll_label_writes_total{result="ok"}')

    async def until_labelled(self, value: str | None, before: float) -> None:
        """Wait until every node has the label with this value in the API server."""

        async def claimed() -> bool:
            return await self.written() - before >= len(self.nodes)

        async def true() -> bool:
            return await self._labels() == dict.fromkeys(self.nodes, value)

        # From the evaluator first: listing all nodes each time would load the API server.
        await until(claimed)
        await until(true)

    async def _labels(self) -> dict[str, str | None]:
        items = [node["metadata"] for node in (await self.stage.client.list(NODES)).items]
        ours = set(self.nodes)
        return {
            meta["name"]: (meta.get("labels") or {}).get(LABELLING)
            for meta in items
            if meta["name"] in ours
        }

    async def edit(self) -> None:
        """Edit the other policy repeatedly, and record how long each edit takes to change a response."""
        target = 99
        while True:
            target = -1 if target == 99 else 99
            begin = time.perf_counter()
            await self.stage.policy(EDITED, ["constant"], target)
            while await self.stage.rejects(EDITED, self.nodes[0]) is not (target == -1):  # noqa: ASYNC110 (no event)
                await asyncio.sleep(0.005)
            self.edits.append(time.perf_counter() - begin)
            await asyncio.sleep(PAUSE)

    async def label(self, fleet: Fleet) -> list[float]:
        """Make all nodes violate, then none, while the other policy is edited. Returns the seconds until all are labelled."""
        editing = asyncio.create_task(self.edit())
        seconds = []
        for value, label in ((2.0, "violating"), (0.0, None)):
            before, begin = await self.written(), time.perf_counter()
            fleet.habits = STEADY._replace(value=value)
            await self.until_labelled(label, before)
            seconds.append(time.perf_counter() - begin)
        if editing.done():
            await editing  # the cause of the failure
        editing.cancel()
        return seconds


async def measure(plane: Plane, count: int, qps: float) -> Line:
    """Return the line, from an evaluator on this API server."""
    nodes = [f"relabel-{number:05}" for number in range(count)]
    flags = ("--staleAfter=20m", f"--kubeQPS={qps:g}", "--log.level=warn", "--v=0")
    async with (
        Stage(plane, flags, sync_period=600.0) as stage,
        contextlib.AsyncExitStack() as stack,
    ):
        await create_nodes(stage.client, nodes)
        await stage.policy(LABELLING, ["health"], 1, "deschedule")
        await stage.policy(EDITED, ["constant"], 99)
        await stage.start()
        # Nodes that lose their evaluator would log many lines: it ends after them.
        stack.push_async_callback(stage.kill)
        address = stage.ports["agents"].address
        fleet = stack.enter_context(Fleet(address, nodes, STEADY, authority=stage.authority))
        await until(lambda: stage.answers("/readyz"))
        bench = Bench(stage, nodes)
        seconds = await bench.label(fleet)
    return {
        "benchmark": "relabel",
        "api": plane.name,
        "nodes": count,
        "kube_qps": qps,
        "seconds_on": round(seconds[0], 1),
        "seconds_off": round(seconds[1], 1),
        "edits": len(bench.edits),
        "edit_p50_s": round(statistics.median(bench.edits), 3),
        "edit_max_s": round(max(bench.edits), 3),
        "aim": "seconds_on <= 60, edit_max_s <= 1 loops",
    }


async def measured(
    nodes: int = 5000,
    kube_qps: float = 200.0,
    *,
    control_plane: bool = False,
) -> AsyncIterator[Line]:
    """Yield the line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with real_plane(folder) if control_plane else sandbox_plane(folder) as plane:
            yield await measure(plane, nodes, kube_qps)


if __name__ == "__main__":
    commandline.run(measured)
