"""The agent of one node reports problems without end: it displaces and delays the Events of its own node only."""

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.signals import ProblemOccurred
from evaluator.features.problems.controller import ProblemEventController, ProblemMetrics
from plimsoll.ratelimit import TokenBucket
from tests.eventually import eventually
from wire import codec, telemetry_pb2

_INT32 = 2**31 - 1
BURST = 25
"""Events that are written at once, as by default; the test waits for no further ones."""


class ApiServer:
    """Stores Events; refuses counts that are no int32."""

    def __init__(self):
        self.events = []

    async def create_event(self, body):
        assert 1 <= body["count"] <= _INT32
        self.events.append((body["involvedObject"]["name"], body["count"]))


def reported(node, *, first, times):
    """What a report with as many events as it may have says."""
    events = [
        {"source": f"monitor-{n}", "reason": "TaskHung", "times": times}
        for n in range(first, first + 20)
    ]
    report = telemetry_pb2.Report(problems=telemetry_pb2.Problems(events=events))
    return [ProblemOccurred(node, one) for one in codec.decode(report, ()).problems.events]


@pytest.fixture
def world():
    nodes = {
        name: SimpleNamespace(metadata=SimpleNamespace(name=name, uid=f"uid of {name}"))
        for name in ("node-m", *(f"node-{n}" for n in range(10)))
    }
    kube, cluster = ApiServer(), SimpleNamespace(nodes=SimpleNamespace(objects=nodes))
    controller = ProblemEventController(
        kube,
        cluster,
        ProblemMetrics(CollectorRegistry()),
        is_leader=lambda: True,
        bucket=TokenBucket(1e-6, BURST),
    )
    return controller, kube


async def test_problems_of_one_node_silence_no_other(world):
    controller, kube = world
    for first in range(0, 2000, 20):
        for event in reported("node-m", first=first, times=2**32 - 1):
            controller.occurred(event)
    for number in range(10):
        controller.occurred(reported(f"node-{number}", first=0, times=1)[0])
    writing = asyncio.create_task(controller.run())
    try:
        await eventually(lambda: len(kube.events) == BURST)
    finally:
        writing.cancel()
    others = {name for name, _ in kube.events} - {"node-m"}
    assert others == {f"node-{number}" for number in range(10)}
    assert max(count for _, count in kube.events) < _INT32
