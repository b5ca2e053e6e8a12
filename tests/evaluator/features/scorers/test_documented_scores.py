"""The documented numbers of each scorer, over HTTP from the real evaluator."""

import asyncio
import contextlib
import json

import aiohttp
import pytest

from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import Client, ensure
from sandbox.client.objects import CRDS
from sandbox.endpoints import kubeconfig
from sandbox.processes import HeldPort
from sandbox.programs import EvaluatorLaunch, evaluator_command
from tests.patience import PATIENCE
from tests.preloaded import Processes
from tests.tuned_evaluator import retuned

pytestmark = pytest.mark.e2e

LONG_AGO = "2024-03-02T08:14:05Z"
CPU = ("mean-free-cpu", "std-free-cpu", "forcasted-free-cpu")
ALONE = {
    "measured": (8000, dict(zip(CPU, ("2500", "400"), strict=False))),
    "forecast": (8000, dict(zip(CPU, ("2500", "400", "2000"), strict=True))),
    "spread": (1000, dict(zip(CPU, ("200", "100"), strict=False))),
    "steady": (8000, {"mean-free-cpu": "1000"}),
    "full": (8000, {"mean-free-cpu": "500"}),
    "below": (1000, dict(zip(CPU, ("101", "5"), strict=False))),
    "above": (1000, dict(zip(CPU, ("95", "5"), strict=False))),
    "silent": (8000, {}),
}
"""Nodes without pods: milli-CPU and annotations."""
CONGESTED = {
    "third": (8000, {"congestion-factor": "35"}),
    "little": (8000, {"congestion-factor": "5"}),
    "beyond": (8000, {"congestion-factor": "150"}),
    "below-zero": (8000, {"congestion-factor": "-3"}),
    "a-word": (8000, {"congestion-factor": "much"}),
    "silent": (8000, {}),
}
HELD = {"n1": (1000, 2048), "n2": (2000, 4096), "n3": (3600, 7000)}
"""Nodes of 4000 milli-CPU and 8192 MiB, by the requests of the one pod on each."""


class ScorerRequests:
    """A running evaluator with scorers, and requests by kube-safe-scheduler's and our own paths."""

    def __init__(self, session, names):
        self._session = session
        self.names = list(names)

    async def post(self, path, cpu=0, memory=0, name="new"):
        body = {"Pod": pod(name, cpu, memory), "Nodes": None, "NodeNames": self.names}
        async with self._session.post(path, json=body) as response:
            text = await response.text()
            assert response.status == 200, text
            return json.loads(text)

    async def accepted(self, path, **amounts):
        """The nodes that pass; all others have a reason."""
        found = await self.post(path, **amounts)
        assert set(found["NodeNames"]) | found["FailedNodes"].keys() == set(self.names)
        assert all(found["FailedNodes"].values())
        return set(found["NodeNames"])

    async def scores(self, path, **amounts):
        return {one["Host"]: one["Score"] for one in await self.post(path, **amounts)}


def node(name, cpu, memory="16Gi", annotations=None):
    size = {"cpu": f"{cpu}m", "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations or {}},
        "status": {
            "allocatable": size,
            "capacity": size,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name, cpu, memory, on=None):
    """A pod with these milli-CPU and MiB; with a node, it has run there for long."""
    asked = {"cpu": f"{cpu}m"} if cpu else {}
    asked |= {"memory": f"{memory}Mi"} if memory else {}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": "web"}}
    container = {"name": "c", "image": "none", "resources": {"requests": asked}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "creationTimestamp": LONG_AGO},
        "spec": {"containers": [container]} | ({"nodeName": on} if on else {}),
        "status": {"phase": "Running", "startTime": LONG_AGO} if on else {"phase": "Pending"},
    }


@contextlib.asynccontextmanager
async def evaluator(folder, nodes, pods, *flags):
    """The real program for this cluster, once it is ready."""
    server, processes = ApiServer(), Processes(folder / "logs")
    server.load("nodes", nodes)
    server.load("pods", pods)
    async with contextlib.AsyncExitStack() as stack:
        url = await server.start()
        stack.push_async_callback(server.close)
        async with Client(url) as client:
            for crd in manifests.crds():
                await ensure(client, CRDS, crd)
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(url))
        ports = [stack.enter_context(HeldPort()) for _ in range(3)]
        stack.push_async_callback(processes.close)
        launch = EvaluatorLaunch(
            config, *(port.number for port in ports), 1.0, ("--staleAfter=2s", *flags)
        )
        await processes.start(
            "evaluator", retuned(evaluator_command(launch), agent_limits={"reconnect": 0.0})
        )
        await ready(processes, ports[2].address)
        session = aiohttp.ClientSession(f"http://{ports[0].address}")
        yield ScorerRequests(
            await stack.enter_async_context(session), [one["metadata"]["name"] for one in nodes]
        )


async def ready(processes, ops):
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession(f"http://{ops}") as session:
        while True:
            processes.check("evaluator")
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get("/readyz") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.05)


def alone(described):
    return [node(name, cpu, annotations=said) for name, (cpu, said) in described.items()]


def holding():
    nodes = [node(name, 4000, "8192Mi") for name in HELD]
    pods = [pod(f"on-{name}", *amounts, on=name) for name, amounts in HELD.items()]
    return nodes, pods


PREDICATE, OVERLOAD, BALANCE = (
    "/scheduler/predicates/safe-overload",
    "/scheduler/priorities/safe-overload",
    "/scheduler/priorities/safe-balance",
)
KNOWN = {"measured": (9, 5), "forecast": (9, 5), "steady": (10, 6), "full": (0, 5)}
"""safe-overload and safe-balance of nodes of 8000m, for a pod of 200m."""


async def test_safe_reproduces_the_documented_table(tmp_path):
    async with evaluator(tmp_path, alone(ALONE), [], "--scorers=safe") as asked:
        accepted = await asked.accepted(PREDICATE, cpu=200)
        assert accepted & {*KNOWN} == {"measured", "forecast", "steady"}
        overload = await asked.scores(OVERLOAD, cpu=200)
        balance = await asked.scores(BALANCE, cpu=200)
        assert {name: (overload[name], balance[name]) for name in KNOWN} == KNOWN
        assert "spread" in await asked.accepted(PREDICATE)
        assert (await asked.scores(OVERLOAD))["spread"] == 2
        assert (await asked.scores(BALANCE))["spread"] == 4
        # The risk is .4263 and .8414.
        assert not {"below", "above"} & await asked.accepted("/scorers/safe/filter")


PIGEON = "/scheduler/priorities/pigeon-holing"


@pytest.mark.parametrize(
    ("objective", "wanted"),
    [
        ("load-balance", {"n1": 10, "n2": 1, "n3": 0}),
        ("consolidate", {"n1": 1, "n2": 10, "n3": 0}),
        ("bin-pack", {"n1": 10, "n2": 1, "n3": 0}),
    ],
)
async def test_pigeon_reproduces_the_documented_table(tmp_path, objective, wanted):
    flags = ("--scorers=pigeon", f"--pigeonObjective={objective}")
    async with evaluator(tmp_path, *holding(), *flags) as asked:
        assert await asked.scores(PIGEON, cpu=500, memory=1024) == wanted
        nowhere = dict.fromkeys(HELD, 0)
        assert await asked.scores(PIGEON, cpu=9000, memory=1024, name="large") == nowhere


async def test_pigeon_learns_the_demand(tmp_path):
    async with evaluator(tmp_path, *holding(), "--scorers=pigeon") as asked:
        for number in range(9):
            await asked.scores(PIGEON, cpu=100, memory=128, name=f"small-{number}")
        await asked.scores(PIGEON, cpu=2000, memory=4096, name="large")
        for _ in range(2):  # a repeated attempt counts once
            found = await asked.scores("/scorers/pigeon/prioritize", cpu=500, memory=1024)
        assert found == {"n1": 1, "n2": 10, "n3": 0}


async def test_congestion_reward_and_template_reproduce_the_documented_table(tmp_path):
    flags = ("--scorers=congestion,reward,template",)
    async with evaluator(tmp_path, alone(CONGESTED), [], *flags) as asked:
        assert await asked.scores("/scheduler/priorities/congestion") == {
            "third": 7,
            "little": 10,
            "beyond": 0,
            "below-zero": 5,  # unknown: the mean of the others
            "a-word": 5,  # unknown: the mean of the others
            "silent": 5,  # unknown: the mean of the others
        }
        everywhere = dict.fromkeys(CONGESTED, 10)
        assert await asked.scores("/scheduler/priorities/rl-priority") == everywhere
        everywhere = dict.fromkeys(CONGESTED, 1)
        assert await asked.scores("/scheduler/priorities/template") == everywhere
        assert await asked.scores("/scorers/template/prioritize") == everywhere
        assert await asked.accepted("/scheduler/predicates/template") == set(CONGESTED)
