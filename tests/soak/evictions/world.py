"""The cluster of a soak: the sandbox with its controllers and scheduler, and two real evaluators with simulated agents."""

import asyncio
import contextlib
import random
import time

import aiohttp
from aiohttp import web

from sandbox import manifests
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import CRDS, DEPLOYMENTS, NODES, PODS, POLICIES
from sandbox.controllers.deployments import Deployments
from sandbox.controllers.kubelet import Kubelet
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from sandbox.scheduler.extender import Extender, ExtenderSpec
from sandbox.scheduler.extenders import Extenders
from sandbox.scheduler.scheduler import Scheduler
from tests.cluster.evaluator import Evaluator
from tests.cluster.fleet import Fleet
from tests.cluster.world import BUDGETS, CONFIG_MAPS
from tests.eventually import eventually
from tests.soak.evictions import workloads
from tests.soak.evictions.doors import Doors
from tests.soak.evictions.truth import Limits, Truth

NODE_NAMES = tuple(f"node-{letter}" for letter in "abcdef")
METRICS = ("heat", "noise", "wear")
REPLICAS = ("east", "west")
LIMITS = Limits(period=6.0, limit=2)
FLAGS = (
    "--leaderElect",
    "--leaseNamespace=default",
    "--leaseDuration=3s",
    "--renewDeadline=2s",
    "--retryPeriod=500ms",
    "--staleAfter=8s",
    "--clusterStaleAfter=12s",
    "--syncPeriod=1s",
    f"--evictPeriod={LIMITS.period:g}s",
    f"--evictLimit={LIMITS.limit}",
    "--maxActedNodes=100%",
    "--taints",
    "--conditions",
    "--gangs",
)


class Replica:
    """One evaluator and its agents. `up`: it was started, and nothing here has ended it since."""

    def __init__(self, name, config, logs):
        self.name = name
        self.evaluator = Evaluator(config, logs / name)
        self.fleet = Fleet(self.evaluator.agents)
        self.up = False

    async def start(self):
        await self.evaluator.start(*FLAGS)
        self.up = True

    async def end(self, *, kill):
        """Stop or kill it."""
        self.up = False
        await self.evaluator.stop(kill=kill)

    @property
    def died(self):
        """Whether it ended by itself."""
        return self.up and not self.evaluator.alive

    async def close(self):
        await self.fleet.close()
        await self.evaluator.close()


class World:
    """Starts everything; `async with World(...)`."""

    def __init__(self, folder, seed):
        self.rng = random.Random(seed)
        self.doors = Doors(random.Random(seed + 1))
        self.truth = Truth(self.doors.store, LIMITS)
        self.replicas = []
        self.number = 0
        """Of the round."""
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        self._stack.push_async_callback(self.doors.close)
        url = await self.doors.open("admin")
        self.client = await self._stack.enter_async_context(Client(url))
        for crd in manifests.crds():
            await ensure(self.client, CRDS, crd)
        await eventually(self._serves_policies)
        for index, name in enumerate(NODE_NAMES):
            await self._add_node(name, index)
        for name in REPLICAS:
            config = self._folder / f"{name}.yaml"
            config.write_text(kubeconfig(await self.doors.open(name)))
            replica = Replica(name, config, self._folder / "logs")
            self._stack.push_async_callback(replica.close)
            self.replicas.append(replica)
            await replica.start()
        for name in NODE_NAMES:
            self.say(name, **dict.fromkeys(METRICS, 0.0))
        await self._start_controllers()
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()

    async def _serves_policies(self):
        with contextlib.suppress(ApiError):
            return await self.client.list(POLICIES)

    async def _add_node(self, name, index):
        body = node_object(name, index, now=time.time())
        body["metadata"]["labels"]["zone"] = "xyz"[index % 3]
        made = await self.client.create(NODES, body)
        await self.client.update(NODES, made | {"status": body["status"]}, subresource="status")
        await self.client.patch(NODES, name, {"spec": {"taints": None}})

    async def _start_controllers(self):
        extender = await self._stack.enter_async_context(
            Extender(ExtenderSpec(await self._extender(), timeout=3.0))
        )
        seeded = [random.Random(self.rng.random()) for _ in range(2)]
        runs = (
            Deployments(self.client, rng=seeded[0]).run(),
            Kubelet(self.client, NODE_NAMES, grace=0.3).run(),
            Scheduler(self.client, Extenders([extender]), rng=seeded[1]).run(),
        )
        for run in runs:
            task = asyncio.create_task(run)
            self._stack.callback(task.cancel)

    async def _extender(self):
        """Start a Service of the replicas' extenders: the first that is ready answers; return its URL."""
        session = await self._stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2.0))
        )

        async def answer(request):
            body = await request.read()
            for replica in self.replicas:
                url = f"{replica.evaluator.extender}/{request.match_info['verb']}"
                headers = {"Content-Type": "application/json"}
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.post(url, data=body, headers=headers) as response:
                        if response.status == 200:
                            return web.Response(body=await response.read())
            return web.Response(status=503)

        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/{verb}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    def say(self, node, **values):
        """Set readings of a node; the others stay."""
        for metric, value in values.items():
            self.truth.say(node, metric, value)
        all_values = {m: self.truth.readings[m, node] for m in METRICS}
        for replica in self.replicas:
            replica.fleet.say(node, **all_values)

    # Objects of a round.

    def policies(self):
        """The names of the round's policies, by metric."""
        return {metric: f"r{self.number}-{metric}" for metric in METRICS}

    async def put_policy(self, metric, **more):
        """Create or replace a policy of the round."""
        name = self.policies()[metric]
        tainting = metric == METRICS[0]
        body = workloads.policy(name, metric, self.number, tainting=tainting, **more)
        try:
            await self.client.create(POLICIES, body)
        except ApiError as error:
            if error.status != 409:
                raise
            await self.client.patch(POLICIES, name, _edited(body), workloads.NAMESPACE)

    async def populate(self):
        """Create the objects of a round, and wait until its pods run."""
        self.number += 1
        for metric in METRICS:
            await self.put_policy(metric)
        names = [*self.policies().values()]
        for body in workloads.random_deployments(self.rng, self.number, names, len(NODE_NAMES)):
            await self.client.create(DEPLOYMENTS, body)
        for app, count in (("behind-budget", 1), ("behind-two", 2)):
            for index in range(count):
                bounds = self.rng.choice(({"maxUnavailable": 1}, {"minAvailable": "100%"}))
                name = f"r{self.number}-{app}-{index}"
                body = workloads.budget(name, f"r{self.number}-{app}", self.number, **bounds)
                await self.client.create(BUDGETS, body)
        for index, node in enumerate(self.rng.sample(NODE_NAMES, 3)):
            owner = await self._job() if index == 0 else None
            name, policy = f"r{self.number}-bare-{index}", self.rng.choice(names)
            body = workloads.bare_pod(name, policy, self.number, node, owner)
            await self.client.create(PODS, body)

    async def _job(self):
        """Return the reference of a Job: an object that exists, or its pod would be collected."""
        name = f"r{self.number}-job"
        meta = {"name": name, "namespace": workloads.NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        made = await self.client.create(CONFIG_MAPS, body)
        uid = made["metadata"]["uid"]
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": uid,
            "controller": True,
        }

    def bare(self):
        """The names of the pods that nothing recreates."""
        found = (key[1] for key, _ in self.doors.store.items("pods"))
        return sorted(name for name in found if "-bare-" in name)

    async def depopulate(self):
        """Delete the objects of a round."""
        mine = f"{workloads.OURS}={self.number}"
        for kind in (POLICIES, BUDGETS, DEPLOYMENTS, PODS):
            for obj in (await self.client.list(kind, workloads.NAMESPACE, labels=mine)).items:
                meta = obj["metadata"]
                with contextlib.suppress(ApiError):  # a controller was faster
                    await self.client.delete(kind, meta["name"], meta["namespace"])
        await eventually(lambda: not self.doors.store.items("pods"))


def _edited(body):
    """Return the merge patch to a policy, without the annotations that it had before."""
    kept = dict.fromkeys(
        ("plimsoll.io/enforcement", "plimsoll.io/actions", "plimsoll.io/taint-effect")
    )
    meta = {"annotations": {**kept, **body["metadata"]["annotations"]}}
    return {"metadata": meta, "spec": body["spec"]}
