"""Events on waiting pods: two successive leaders update one event, which kubectl finds."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.client import Kube
from evaluator.core.kube.event_queue import EventTimings
from evaluator.features.gangs.core.labels import decode
from evaluator.features.gangs.core.types import GangDecisions, GangState, GangVerdict
from evaluator.features.gangs.events import GangEventRecorder
from evaluator.features.gangs.metrics import GangMetrics
from sandbox.client.objects import EVENTS, PODS
from tests.evaluator.features.gangs.fed import fed_index

pytestmark = pytest.mark.e2e

GATES = [{"name": "plimsoll.io/gang"}]


@pytest.fixture
async def replica(world):
    """Start an event recorder for the current gangs; the test sets the verdicts on the returned object."""
    async with contextlib.AsyncExitStack() as stack:

        async def start():
            kube = await Kube.connect(str(world.plane.kubeconfig))
            stack.push_async_callback(kube.close)
            inventory = PodCache(clock=lambda: 0.0, wall=lambda: 0.0)
            inventory.pods.replace([decode(raw) for raw in await kube.list_pods(world.namespace)])
            index = fed_index(inventory)
            made = SimpleNamespace(message="", is_leader=True)

            def outcome():
                verdict = GangVerdict(GangState.INCOMPLETE, made.message, 0.0)
                return GangDecisions(dict.fromkeys(index.by_key, verdict))

            made.event_recorder = GangEventRecorder(
                kube,
                GangMetrics(CollectorRegistry()),
                lambda: index.by_key,
                outcome,
                lambda _gang: (),
                {},
                is_leader=lambda: made.is_leader and bool(made.message),
                pace=EventTimings(settle=0.0, rest=0.0),
                pause=0.01,
            )
            task = asyncio.create_task(made.event_recorder.run())
            stack.callback(task.cancel)
            return made

        yield start


@pytest.fixture
def told(world):
    """Wait until our events on a pod are these: (reason, message, count)."""

    async def wait(pod, *wanted):
        selector = f"involvedObject.name={pod},reportingComponent=plimsoll"

        async def agree():
            found = (await world.client.list(EVENTS, world.namespace, fields=selector)).items
            told = [(event["reason"], event["message"], event["count"]) for event in found]
            return told == list(wanted) and found

        return await world.eventually(agree)

    return wait


async def test_second_leader_updates_the_same_event(world, replica, told):
    await world.add_pod("train-0", schedulingGates=GATES)
    labels = {"podGroup": "train", "minAvailable": "3"}
    pod = await world.client.patch(
        PODS, "train-0", {"metadata": {"labels": labels}}, world.namespace
    )
    first = await replica()
    first.message = "1 of 3 exist"
    first.event_recorder.wake()
    (event,) = await told("train-0", ("GangIncomplete", "1 of 3 exist", 1))
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    first.message = "2 of 3 exist"
    first.event_recorder.wake()
    await told("train-0", ("GangIncomplete", "2 of 3 exist", 2))
    first.is_leader = False
    second = await replica()
    second.message = "1 of 3 exist"
    second.event_recorder.wake()
    await told("train-0", ("GangIncomplete", "1 of 3 exist", 2))
    second.message = "2 of 3 exist"
    second.event_recorder.wake()
    await told("train-0", ("GangIncomplete", "2 of 3 exist", 3))
