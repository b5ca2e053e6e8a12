"""Draws faults and edits at random, from a seed, and takes them all back."""

import asyncio
import contextlib
import time

from sandbox.client.client import ApiError
from sandbox.client.objects import DEPLOYMENTS, NODES, PODS, POLICIES
from tests.cluster.world import BUDGETS, CONFIG_MAPS
from tests.eventually import eventually
from tests.soak.evictions import workloads
from tests.soak.evictions.doors import NAMES, Fault
from tests.soak.evictions.world import METRICS, NODE_NAMES, REPLICAS

_SCOPES = ("", "", "write", "/eviction", "/eviction", "/configmaps", "/leases", "/nodes", "/pods")
_OTHERS = "plimsoll.io"


class Chaos:
    """All faults: `rage()` for a while, then `settle()`."""

    def __init__(self, world):
        self._world = world
        self._rng = world.rng
        self._tasks = set()
        self.counts = {}
        """How often each happened."""

    async def rage(self, seconds):
        """Inject about one fault a second."""
        end = time.monotonic() + seconds
        names, weights = zip(*_EVENTS.items(), strict=True)
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, self._rng.uniform(0.2, 1.8)))
            (name,) = self._rng.choices(names, weights)
            self.counts[name] = self.counts.get(name, 0) + 1
            with contextlib.suppress(ApiError):  # a controller was faster
                await getattr(self, f"_{name}")()

    async def settle(self):
        """Take everything back: all replicas run, all policies are enforced, a few nodes violate."""
        world = self._world
        for task in [*self._tasks]:
            await task
        world.doors.faults.clear()
        for replica in world.replicas:
            if not replica.up:
                await replica.start()
        await self._resume()
        for metric in METRICS:
            await world.put_policy(metric)
            for node in NODE_NAMES:
                world.say(node, **{metric: 0.0})
        await eventually(self._is_compliant)  # so that all violations are new ones
        await self._heat()
        await eventually(self._is_violated)

    def _compliance(self):
        stored = self._world.doors.store.items("taspolicies.telemetry.intel.com")
        return {(record.obj.get("status") or {}).get("compliance") for _, record in stored}

    def _is_compliant(self):
        return self._compliance() == {"Compliant"}

    def _is_violated(self):
        return self._compliance() == {"Violated"}

    def _later(self, seconds, act):
        async def wait():
            await asyncio.sleep(seconds)
            with contextlib.suppress(ApiError):
                await act()

        task = asyncio.create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Readings.

    async def _heat(self):
        """Other nodes violate."""
        for metric in METRICS:
            hot = self._rng.sample(NODE_NAMES, self._rng.choice((1, 1, 2, 3)))
            for node in NODE_NAMES:
                self._world.say(node, **{metric: 9.0 if node in hot else 0.0})

    async def _flicker(self):
        """One node violates, or no longer does."""
        node, metric = self._rng.choice(NODE_NAMES), self._rng.choice(METRICS)
        hot = [n for n in NODE_NAMES if self._world.truth.readings[metric, n] > 5]
        value = 0.0 if node in hot or len(hot) > 2 else 9.0
        self._world.say(node, **{metric: value})

    # The API server.

    async def _fault(self):
        """A client gets errors for a while."""
        rng, faults = self._rng, self._world.doors.faults
        fault = Fault(
            rng.choice(NAMES),
            rng.choice((0.3, 0.7, 1.0)),
            rng.choice(_SCOPES),
            seconds=rng.choice((1.0, 2.0, 4.0)),
        )
        clients = rng.choice((*([name] for name in REPLICAS), REPLICAS))
        for client in clients:
            faults[client] = fault
            if not fault.scope and rng.random() < 0.5:
                self._world.doors.cut(client)

        async def clear():
            for client in clients:
                if faults.get(client) is fault:
                    del faults[client]

        self._later(rng.choice((1, 4, 10)) * rng.uniform(0.3, 1.5), clear)

    async def _watches_lost(self):
        self._world.doors.cut(self._rng.choice(REPLICAS))

    async def _history_expires(self):
        self._world.doors.api.expire_history()

    # Replicas.

    def _leader(self):
        """The replica that leads, by the Lease; None if it is down."""
        name = self._world.doors.leader
        up = (one for one in self._world.replicas if one.up and one.name == name)
        return next(up, None)

    async def _end(self, replica, *, kill):
        if replica is None or not replica.up:
            return
        await replica.end(kill=kill)

        async def start():
            if not replica.up:
                await replica.start()

        self._later(self._rng.choice((0.0, 1.0, 5.0)), start)

    async def _leader_killed(self):
        await self._end(self._leader(), kill=True)

    async def _leader_stopped(self):
        await self._end(self._leader(), kill=False)

    async def _replica_killed(self):
        await self._end(self._rng.choice(self._world.replicas), kill=True)

    async def _leader_killed_while_it_evicts(self):
        """After the API server evicted a pod, before the leader knows."""
        if (replica := self._leader()) is None:
            return
        faults, name = self._world.doors.faults, replica.name

        async def kill():
            faults.pop(name, None)
            self._later(0.0, lambda: self._end(replica, kill=True))
            await asyncio.sleep(0.1)

        faults[name] = Fault("lost answer", 1.0, "/eviction", then=kill)

    async def _leader_suspended(self):
        """For longer than its Lease."""
        if (replica := self._leader()) is not None:
            with replica.evaluator.paused():
                await asyncio.sleep(self._rng.uniform(0.5, 6))

    async def _lease_deleted(self):
        leases = [key for key, _ in self._world.doors.store.items("leases.coordination.k8s.io")]
        for namespace, name in leases:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
            await self._world.client.request("DELETE", path)

    # Rivals.

    async def _rival(self):
        """Another controller takes taints, labels and conditions of ours off a node."""
        name = self._rng.choice(NODE_NAMES)
        node = await self._world.client.get(NODES, name)
        ours = [key for key in node["metadata"]["labels"] if key.startswith("r")]
        taints = node["spec"].get("taints") or []
        kept = [taint for taint in taints if _OTHERS not in taint["key"]]
        patch = {
            "metadata": {"labels": dict.fromkeys(ours)},
            "spec": {"taints": kept or None},
        }
        await self._world.client.patch(NODES, name, patch)

    # People.

    async def _policy_observed(self):
        metric = self._rng.choice(METRICS)
        await self._world.put_policy(metric, observed=True)
        self._later(self._rng.uniform(1, 12), lambda: self._world.put_policy(metric))

    async def _policy_deleted(self):
        metric = self._rng.choice(METRICS)
        name = self._world.policies()[metric]
        await self._world.client.delete(POLICIES, name, workloads.NAMESPACE)
        self._later(self._rng.uniform(0, 8), lambda: self._world.put_policy(metric))

    async def _policy_unannotated(self):
        metric = METRICS[0]
        name = self._world.policies()[metric]
        patch = {"metadata": {"annotations": {"plimsoll.io/actions": None}}}
        await self._world.client.patch(POLICIES, name, patch, workloads.NAMESPACE)
        self._later(self._rng.uniform(1, 8), lambda: self._world.put_policy(metric))

    async def _stopped(self):
        """All policies are frozen, or released, for a while."""
        text = self._rng.choice(("maintenance", '{"mode": "release"}', '{"mode": "freeze"}'))
        meta = {"name": "plimsoll-stop", "namespace": workloads.NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"all": text}}
        await self._world.client.create(CONFIG_MAPS, body)
        self._later(self._rng.uniform(1, 10), self._resume)

    async def _resume(self):
        with contextlib.suppress(ApiError):  # nothing is stopped
            await self._world.client.delete(CONFIG_MAPS, "plimsoll-stop", workloads.NAMESPACE)

    async def _budget_comes_and_goes(self):
        """A further budget for a workload: it forbids evictions, or there are two."""
        name = f"r{self._world.number}-passing"
        app = f"r{self._world.number}-{self._rng.choice(('plain', 'apart', 'behind-budget'))}"
        bounds = self._rng.choice(({"maxUnavailable": 0}, {"maxUnavailable": 1}))
        body = workloads.budget(name, app, self._world.number, **bounds)
        await self._world.client.create(BUDGETS, body)

        async def drop():
            await self._world.client.delete(BUDGETS, name, workloads.NAMESPACE)

        self._later(self._rng.uniform(2, 15), drop)

    async def _pod_deleted(self):
        """Someone deletes a pod of a deployment."""
        keys = [key for key, _ in self._world.doors.store.items("pods") if "-bare-" not in key[1]]
        if keys:
            namespace, name = self._rng.choice(keys)
            await self._world.client.delete(PODS, name, namespace)

    async def _scaled(self):
        app = f"r{self._world.number}-plain"
        replicas = self._rng.randint(1, 8)
        body = {"spec": {"replicas": replicas}}
        await self._world.client.patch(DEPLOYMENTS, app, body, workloads.NAMESPACE)


_EVENTS = {
    "heat": 10,
    "flicker": 15,
    "fault": 10,
    "watches_lost": 3,
    "history_expires": 1,
    "leader_killed": 2,
    "leader_stopped": 2,
    "leader_suspended": 1,
    "leader_killed_while_it_evicts": 3,
    "replica_killed": 1,
    "lease_deleted": 1,
    "rival": 4,
    "policy_observed": 2,
    "policy_deleted": 2,
    "policy_unannotated": 1,
    "stopped": 2,
    "budget_comes_and_goes": 3,
    "pod_deleted": 2,
    "scaled": 2,
}
