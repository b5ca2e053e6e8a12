"""Runs scenarios in the real engine: kube-apiserver, kube-scheduler and the evaluator as processes, simulated agents.

The same worlds as in the model engine, in real time. Pods that use traces are compressed by a factor: arrivals, lives and the
steps of traces take that many times less, while everything of the systems, such as windows of readings, keeps its time. The
output names the factor; the model engine takes the same, so both engines run the same world.
"""

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.placement.model import Ran, Run
from bench.placement.programs import Programs, Report, programs
from bench.placement.scenarios import World
from bench.world import furnish
from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import EXTENDER_RESOURCE, POLICY_LABEL
from lab.closed_loop.systems import METRICS, SYNC_PERIOD, ShippedMetrics
from lab.closed_loop.use import Measurement, Outcome, UseHistory
from lab.closed_loop.workload import Nodes, SimulatedPod
from sandbox.client.client import STRATEGIC, ApiError, Client
from sandbox.client.informer import Informer, following
from sandbox.client.objects import NODES, PODS, POLICIES, REPLICASETS, Object
from sandbox.controllers.nodes import node_object
from sandbox.envtest import ControlPlane, NoControlPlaneError, find

NAMESPACE = "default"
_PATIENCE = 60.0
_AT_ONCE = 20
"""Requests to the API server at once."""


def measured(one: Run, *, tas: str = "") -> Ran:
    """Run one world in real time. `tas`: the program of Telemetry Aware Scheduling.

    Raises SystemExit without kube-apiserver or kube-scheduler, and for a system without programs.
    """
    system = programs(one.system, tas)
    if system is None:
        raise SystemExit(f"{one.system} has only a model")
    try:
        outcome = asyncio.run(run(one.world(), system))
    except NoControlPlaneError as error:
        raise SystemExit(f"--engine real: {error}") from error
    return Ran(one, outcome, 0.0)


async def run(world: World, system: Programs) -> Outcome:
    """Run one world and return its result. Raises NoControlPlaneError without kube-apiserver or kube-scheduler."""
    binaries = find(os.environ)
    with (
        tempfile.TemporaryDirectory() as name,
        ControlPlane(binaries, Path(name) / "plane") as plane,
    ):
        async with Client(plane.url, token=plane.token, ca=plane.ca) as client:
            await _furnish(client, world, system)
            async with _placing(plane, Path(name), world.nodes, system) as report:
                cluster = _Cluster(client, world, with_policy=system.policy is not None)
                return await _follow(cluster, world, report)


async def _furnish(client: Client, world: World, system: Programs) -> None:
    """Create the namespace's account, nodes, ReplicaSets and the policy."""
    await furnish(client, NAMESPACE)
    for index, name in enumerate(world.nodes.names):
        await _create_node(client, name, index, world.nodes)
    for owner in sorted({pod.owner for pod in world.pods if pod.owner}):
        await client.create(REPLICASETS, _replicaset(owner))
    if system.policy is not None:
        await client.create(POLICIES, system.policy)


async def _create_node(client: Client, name: str, index: int, nodes: Nodes) -> None:
    body = node_object(name, index, now=time.time())
    body["spec"] = {}
    amounts = {
        "cpu": f"{round(nodes.cores * 1000)}m",
        "memory": str(int(nodes.memory)),
        "pods": "110",
        EXTENDER_RESOURCE: "10k",
    }
    status = {**body.pop("status"), "capacity": amounts, "allocatable": amounts}
    await client.create(NODES, body)
    await client.patch(NODES, name, {"spec": {"taints": None}})
    await client.patch(
        NODES, name, {"status": status}, subresource="status", content_type=STRATEGIC
    )


def _replicaset(owner: str) -> Object:
    labels = {"app": owner}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [_container("main")]}}
    return {
        "apiVersion": REPLICASETS.api_version,
        "kind": "ReplicaSet",
        "metadata": {"name": owner, "namespace": NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def _container(name: str, **resources: Any) -> Object:
    return {"name": name, "image": "none", "resources": resources}


def _pod(pod: SimulatedPod, owner_uid: str, *, with_policy: bool) -> Object:
    limits = {"cpu": f"{round(pod.limit * 1000)}m"}
    labels: dict[str, str] = {"app": pod.owner} if pod.owner else {}
    if with_policy:
        limits[EXTENDER_RESOURCE] = "1"
        labels[POLICY_LABEL] = "balance"
    requests = {"cpu": f"{round(pod.cpu * 1000)}m", "memory": str(int(pod.memory))}
    meta: Object = {"name": pod.name, "namespace": NAMESPACE, "labels": labels}
    if pod.owner:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": pod.owner, "uid": owner_uid}
        meta["ownerReferences"] = [{**owner, "controller": True}]
    spec = {
        "containers": [_container("main", requests=requests, limits=limits)],
        "terminationGracePeriodSeconds": 0,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@contextlib.asynccontextmanager
async def _placing(
    plane: ControlPlane, folder: Path, nodes: Nodes, system: Programs
) -> AsyncIterator[Report]:
    """Run the system and kube-scheduler; yield what gets the readings."""
    async with system.running(plane, folder, nodes.names) as (extenders, report):
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 500, "burst": 1000},
            "leaderElection": {"leaderElect": False},
            **({"extenders": extenders} if extenders else {}),
        }
        file = folder / "scheduler.json"
        file.write_text(json.dumps(config))
        with plane.scheduler(file) as is_up:
            until = time.monotonic() + _PATIENCE
            while not is_up():
                if time.monotonic() > until:
                    raise TimeoutError(f"kube-scheduler: {plane.log('kube-scheduler')[-500:]}")
                await asyncio.sleep(0.2)
            yield report


class _Cluster:
    """The pods of a world in the API server, and where kube-scheduler placed them."""

    def __init__(self, client: Client, world: World, *, with_policy: bool) -> None:
        self._client = client
        self._pods = {pod.name: (number, pod) for number, pod in enumerate(world.pods)}
        self._position = {name: number for number, name in enumerate(world.nodes.names)}
        self._with_policy = with_policy
        self._uids: dict[str, str] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self.node = np.full(len(world.pods), -1)
        self.informer = Informer(client, PODS, self._changed)
        self.bound_at: list[tuple[float, int]] = []

    def _changed(self, _before: Object | None, after: Object | None) -> None:
        if after is None or not (node := after["spec"].get("nodeName")):
            return
        number, _ = self._pods[after["metadata"]["name"]]
        if self.node[number] < 0:
            self.node[number] = self._position[node]
            self.bound_at.append((time.monotonic(), int(self.node[number])))

    async def create(self, pods: Sequence[SimulatedPod]) -> None:
        """Create pods, several at once."""
        await asyncio.gather(*map(self._create, pods))

    async def _create(self, pod: SimulatedPod) -> None:
        if pod.owner and pod.owner not in self._uids:
            found = await self._client.get(REPLICASETS, pod.owner, NAMESPACE)
            self._uids[pod.owner] = found["metadata"]["uid"]
        async with self._gate:
            body = _pod(pod, self._uids.get(pod.owner, ""), with_policy=self._with_policy)
            await self._client.create(PODS, body)

    async def delete(self, pods: Sequence[SimulatedPod]) -> None:
        """Delete pods whose life ended, several at once."""
        await asyncio.gather(*map(self._delete, pods))

    async def _delete(self, pod: SimulatedPod) -> None:
        async with self._gate:
            with contextlib.suppress(ApiError):
                await self._client.delete(PODS, pod.name, NAMESPACE, grace=0)


async def _follow(cluster: _Cluster, world: World, report: Report) -> Outcome:
    """Create and delete pods in real time, and report the use that follows from their placement."""
    timing, nodes = world.timing, world.nodes
    steps = round(timing.end / timing.step)
    history = UseHistory(world.base, steps, timing.step)
    measured = Measurement(nodes, timing.step, timing.warm_up, timing.interval)
    metrics = ShippedMetrics(nodes)
    names = [f"node_{metric}" for metric in METRICS]
    running = _Running(world, cluster)
    async with following(cluster.informer):
        begin, due = time.monotonic(), 0.0
        for number in range(steps):
            now = number * timing.step
            await running.advance(now)
            if now >= due:
                due = now + SYNC_PERIOD
                metrics.read(now, history, names)
                report(
                    {name: metrics.column(name, nodes.names, now).values.tolist() for name in names}
                )
            await asyncio.sleep(max(0.0, begin + now + timing.step - time.monotonic()))
            demand, history.memory[:] = running.demands(now)
            history.add(measured.add(demand))
    return measured.outcome(
        pods=int((cluster.node >= 0).sum()),
        pending=running.pending,
        pending_share=0.0,
        waited=0,
        moves=0,
        writes=0,
        at_once=_most_at_once(cluster.bound_at, nodes.count),
    )


class _Running:
    """Which pods exist, from when to when."""

    def __init__(self, world: World, cluster: _Cluster) -> None:
        self._world = world
        self._cluster = cluster
        self._waiting = sorted(world.pods, key=lambda pod: pod.arrives, reverse=True)
        self._numbers = {pod.name: number for number, pod in enumerate(world.pods)}
        self._started = np.full(len(world.pods), np.nan)
        self._gone = np.zeros(len(world.pods), bool)
        self._demand = np.array([pod.demand for pod in world.pods])
        self._memory = np.array([pod.memory for pod in world.pods])
        self._lives = np.array([pod.life for pod in world.pods])
        self._creating: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """Pods that arrived and have no node."""
        return int((self._cluster.node < 0).sum()) - len(self._waiting)

    async def advance(self, now: float) -> None:
        """Delete the pods that end, create those that arrive; creating goes on in the background."""
        placed = self._cluster.node >= 0
        self._started[placed & np.isnan(self._started)] = now
        ended = (self._started + self._lives <= now) & ~self._gone
        self._gone |= ended
        if ended.any():
            await self._cluster.delete([self._world.pods[n] for n in ended.nonzero()[0].tolist()])
        arrived = []
        while self._waiting and self._waiting[-1].arrives < now + self._world.timing.step:
            arrived.append(self._waiting.pop())
        if arrived:
            task = asyncio.create_task(self._cluster.create(arrived))
            self._creating.add(task)
            task.add_done_callback(self._creating.discard)

    def demands(self, now: float) -> tuple[Floats, Floats]:
        """Return CPU demand and memory in use of each node."""
        running = ((self._cluster.node >= 0) & ~self._gone).nonzero()[0]
        started = np.nan_to_num(self._started[running], nan=now)
        elapsed = np.maximum(now - started, 0) // self._world.timing.trace_step
        values = self._demand[running, elapsed.astype(np.intp) % self._demand.shape[1]]
        nodes, count = self._cluster.node[running], self._world.nodes.count
        demand = self._world.base + np.bincount(nodes, values, count)
        return demand, np.bincount(nodes, self._memory[running], count)


def _most_at_once(bound: Sequence[tuple[float, int]], nodes: int) -> int:
    """Return the most pods that one node got within the seconds between two reports."""
    most, counts, first = 0, [0] * nodes, 0
    for at, node in bound:
        counts[node] += 1
        while bound[first][0] <= at - SYNC_PERIOD:
            counts[bound[first][1]] -= 1
            first += 1
        most = max(most, counts[node])
    return most
