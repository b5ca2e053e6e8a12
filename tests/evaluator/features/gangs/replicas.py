"""A replica that decides on gangs, and its environment: pods that are created, bound and ungated."""

import asyncio

from prometheus_client import CollectorRegistry

from evaluator.core.cache import cluster
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.resources import ALL_PODS, NODES
from evaluator.core.leader.write_fence import WriteFence
from evaluator.core.policy.decide import Decisions
from evaluator.core.signals import Signals, wakes
from evaluator.features.gangs import controller
from evaluator.features.gangs.controller import GangsDecided
from evaluator.features.gangs.core import labels
from evaluator.features.gangs.core.membership import GATE
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.feature import GangManager
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.gangs.options import GangOptions
from tests.patience import PATIENCE

PODS = "/api/v1/namespaces/default/pods"
TRAIN = GangKey("default", "train")
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}


class Decided:
    """The decisions on policies, set by hand."""

    def __init__(self):
        self.latest, self.waiting_for = Decisions(), []


class Replica:
    """An evaluator's gang controller with its own watches. `decided` replaces the decisions on policies."""

    def __init__(
        self,
        kube,
        rng,
        background,
        *,
        patience=controller.PATIENCE,
        pace=controller.PACE,
        **options,
    ):
        self.kube = kube
        self.registry = CollectorRegistry()
        self.metrics = GangMetrics(self.registry)
        self.decided = Decided()
        self.signals = Signals()
        self.fence = WriteFence(publish=self.signals.publish)
        kube.fence = self.fence.write
        self.cluster = ClusterCache(signals=self.signals)
        self.inventory = PodCache(clock=lambda: 0.0, wall=lambda: 0.0, signals=self.signals)
        self.pods = Reflector(kube, ALL_PODS, labels.decode, self.inventory.pods, rng=rng)
        nodes = Reflector(kube, NODES, cluster.decode_node, self.cluster.nodes, rng=rng)
        self.gangs = GangManager(
            GangOptions(gangs=True, **options),
            kube,
            self.cluster,
            self.decided,
            self.metrics,
            inventory=self.inventory,
            fence=self.fence,
            list_anew=self.pods.list_anew,
            publish=self.signals.publish,
            patience=patience,
            pace=pace,
        )
        self.signals.connect(self.gangs.reactions())
        self.gang_controller = self.gangs.gang_controller
        loops = (self.pods.run(), nodes.run(), *(loop() for loop in self.gangs.loops()))
        self.loops = [background(loop) for loop in loops]

    def kill(self):
        for loop in self.loops:
            loop.cancel()

    def state(self, name):
        """The state of a gang by name; None if unknown."""
        verdicts = self.gang_controller.decisions.verdicts
        return next((said.state for key, said in verdicts.items() if key.name == name), None)

    def sample(self, name, **labels):
        return self.registry.get_sample_value(f"plimsoll_{name}", labels)


async def node(api, name):
    await api.node(name)
    await api.merge(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": ROOM}})


async def pods(api):
    return {pod["metadata"]["name"]: pod for pod in (await api.get(PODS))["items"]}


def gates(pod):
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


async def going(api):
    """Pods without our gate."""
    return {name for name, pod in (await pods(api)).items() if GATE not in gates(pod)}


async def free(api, *names):
    """Wait until exactly these pods are ungated."""
    async with asyncio.timeout(PATIENCE):
        while await going(api) != set(names):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def another_decision(replica):
    """Decide on the current cache and finish the resulting writes."""
    for _ in range(2):  # one may be in flight
        told = asyncio.Event()
        replica.signals.connect(wakes(told.set, GangsDecided))
        replica.gang_controller.wake()
        async with asyncio.timeout(PATIENCE):
            await told.wait()


async def bind(api, *names, to="node-a"):
    for name in names:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": to},
        }
        await api.call("POST", f"{PODS}/{name}/binding", body)


def known(replica):
    return replica.inventory.pods.objects.values()
