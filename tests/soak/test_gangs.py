"""Gangs start, run, lose pods and end while the evaluator is killed at random moments: none falls below its quorum, no two
are half placed, and all that fit are released in the end.

`PLIMSOLL_SEED` sets the seed.
"""

import asyncio
import itertools
import os
import random
from dataclasses import dataclass, field

import pytest

from sandbox.client.objects import PODS
from sandbox.cluster import ClusterSpec
from sandbox.controllers.nodes import CAPACITY
from sandbox.programs import evaluator_command
from tests.patience import PATIENCE
from tests.preloaded import Cluster
from tests.tuned_evaluator import retuned

pytestmark = [pytest.mark.e2e, pytest.mark.features("gangs")]

QUICK = {"gang_timeout": 3.0, "gang_backoff": 1.0, "gang_backoff_max": 4.0, "gang_ageing": 5.0}
CORES = int(CAPACITY["cpu"])


@dataclass
class Gang:
    """One gang and its observed history. A fake controller replaces its lost pods."""

    name: str
    minimum: int
    priority: int
    cores: int
    missing: int = 0
    """Pods still to be created."""
    made: "itertools.count[int]" = field(default_factory=itertools.count)
    gone: bool = False
    """Whether one of its gates was lifted."""
    whole: int = 0
    """Number of checks since its quorum runs."""
    ended: bool = False

    def fits(self, nodes):
        return nodes * (CORES // self.cores) >= self.minimum

    def pod(self):
        labels = {
            "podGroup": self.name,
            "minAvailable": str(self.minimum),
            "groupPriority": str(self.priority),
        }
        requests = {"requests": {"cpu": str(self.cores)}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{self.name}-{next(self.made)}",
                "namespace": "default",
                "labels": labels,
            },
            "spec": {
                "containers": [{"name": "c", "image": "none:1", "resources": requests}],
                "schedulingGates": [{"name": "plimsoll.io/gang"}],
            },
        }


class GangLoad:
    """Generates events, and checks each observed list of all pods."""

    def __init__(self, cluster, rng, count):
        self.gangs = {}
        self.wrong = []
        self._cluster = cluster
        self._api = cluster.client
        self._rng = rng
        self._left = count

    async def run(self):
        """Run until every gang that fits has run; `wrong` lists violations."""
        async with asyncio.timeout(PATIENCE + self._left):
            while self._left or self.waiting():
                if self._left and self._rng.random() < 0.3:
                    self._add()
                await self._make()
                if self._left and self._rng.random() < 0.06:
                    await self._cluster.restart_evaluator(kill=True)
                await self._look()
                await asyncio.sleep(0.05)

    def waiting(self):
        nodes = len(self._cluster.spec.nodes)
        return [one.name for one in self.gangs.values() if one.fits(nodes) and not one.ended]

    def _add(self):
        rng, minimum = self._rng, self._rng.randint(2, 6)
        gang = Gang(
            name=f"g-{self._left}",
            minimum=minimum,
            missing=minimum + rng.choice((0, 0, 0, 1)),
            priority=rng.choice((0, 0, 1, 5)),
            cores=rng.choice((1, 1, 2, 3, 5)),
        )
        self._left -= 1
        self.gangs[gang.name] = gang

    async def _make(self):
        """Create pods one by one, interleaving several gangs."""
        for gang in self.gangs.values():
            if gang.missing and not gang.ended and self._rng.random() < 0.7:
                gang.missing -= 1
                await self._api.create(PODS, gang.pod())

    async def _look(self):
        seen = {name: [] for name in self.gangs}
        for pod in (await self._api.list(PODS, "default")).items:
            if "deletionTimestamp" not in pod["metadata"]:
                seen[pod["metadata"]["labels"]["podGroup"]].append(pod)
        for name, pods in seen.items():
            await self._judge(self.gangs[name], pods)
        halves = [one.name for one in self.gangs.values() if one.gone and not one.whole]
        if len(halves) > 1:
            self.wrong.append(f"{halves} were let go, and none of them is whole")

    async def _judge(self, gang, pods):
        free = [pod for pod in pods if "schedulingGates" not in pod["spec"]]
        placed = [pod for pod in free if "nodeName" in pod["spec"]]
        if free and not gang.gone:
            gang.gone = True
            if len(pods) < gang.minimum:
                self.wrong.append(f"{gang.name} was let go with {len(pods)} of {gang.minimum}")
        if len(placed) >= gang.minimum:
            gang.whole += 1
            await self._trouble(gang, pods, placed)

    async def _trouble(self, gang, pods, placed):
        """A running gang ends, or loses a pod that is replaced."""
        if self._rng.random() < gang.whole / 100:
            gang.ended = True
            for pod in pods:
                await self._delete(pod)
        elif self._rng.random() < 0.05:
            await self._delete(self._rng.choice(placed))
            gang.missing += 1

    async def _delete(self, pod):
        await self._api.delete(PODS, pod["metadata"]["name"], "default", grace=0)


def quick(launch):
    """The evaluator's command, with short times for gangs."""
    return retuned(evaluator_command(launch), **QUICK)


async def test_gangs_run_while_the_evaluator_is_killed(tmp_path, soak):
    rng = random.Random(int(os.environ.get("PLIMSOLL_SEED", "7")))
    spec = ClusterSpec(dir=tmp_path, nodes=("a", "b", "c"), gangs=True, evaluator=quick)
    async with Cluster(spec) as cluster:
        load = GangLoad(cluster, rng, 300 if soak else 12)
        try:
            await load.run()
        except TimeoutError:
            load.wrong.append(f"still waiting: {load.waiting()}")
        log = cluster.processes.log_end("evaluator")
    assert not load.wrong, "\n".join((*load.wrong[:10], log))
    assert "Traceback" not in (tmp_path / "logs" / "evaluator.log").read_text()
