"""Hostile problems and acknowledgements.

The agent of one node reports problems without end: it displaces and delays the Events of its own node only. Times of a clock
that is ahead hide no problem that begins later.
"""

import asyncio
import json
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import decode_node
from evaluator.core.kube.node_events import NodeEventWriter
from evaluator.core.signals import ProblemOccurred
from evaluator.features.problems import plan
from evaluator.features.problems.controller import ProblemEventController, ProblemMetrics
from plimsoll import rfc3339
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
        NodeEventWriter(
            kube,
            cluster,
            ProblemMetrics(CollectorRegistry()).dropped,
            is_leader=lambda: True,
            bucket=TokenBucket(1e-6, BURST),
        )
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


NOON = 1_790_000_000.0
KIND = "KernelDeadlock"


def acknowledged(at, *, written):
    """A node whose problem a person acknowledged at a time of their clock; `written`: by the API server's clock."""
    key = f"plimsoll.io/ack.{KIND}"
    fields = {"f:metadata": {"f:annotations": {".": {}, f"f:{key}": {}, "f:plimsoll.io/ack.Other": {}}}}  # fmt: skip
    entry = {"manager": "kubectl-annotate", "operation": "Update", "fieldsV1": fields}
    times = {"time": rfc3339.seconds(written)} if written else {}
    meta = {"name": "n", "uid": "u", "annotations": {key: f"{at} ada"}}
    return decode_node(json.dumps({"metadata": {**meta, "managedFields": [entry | times]}}))


@pytest.mark.parametrize("year", ["2026", "9999"])
@pytest.mark.parametrize("written", [NOON, None])
def test_acknowledgement_of_a_clock_that_is_ahead_counts_from_when_it_was_written(year, written):
    ahead = rfc3339.seconds(NOON + 3600).replace("2026", year)
    seen = NOON + 1
    at, user = plan.acknowledgements(acknowledged(ahead, written=written), seen)[KIND]
    assert (at, user) == (NOON if written else seen, "ada")
    # After a restart of the evaluator, too: what began meanwhile is not hidden.
    later, _ = plan.acknowledgements(acknowledged(ahead, written=NOON), NOON + 7200)[KIND]
    assert later == NOON


def test_acknowledgement_keeps_a_time_before_it_was_written():
    node = acknowledged(rfc3339.seconds(NOON - 60), written=NOON)
    assert plan.acknowledgements(node, NOON + 5)[KIND][0] == NOON - 60
