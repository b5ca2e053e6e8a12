"""Events of problems: aggregated, at a limited rate, by the leader only."""

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.kube.node_events import NodeEventWriter
from evaluator.core.kube.waiting_events import MOST_OF_NODE
from evaluator.core.signals import ProblemOccurred
from evaluator.features.problems.controller import ProblemEventController, ProblemMetrics
from plimsoll.ratelimit import TokenBucket
from tests.eventually import eventually
from wire.problems import ProblemEvent

EVENT = ProblemEvent("kernel", "TaskHung", "task a:1 hangs", 1)


class Kube:
    """An API server that stores Events."""

    def __init__(self) -> None:
        self.events = {}

    async def create_event(self, body) -> None:
        self.events[body["metadata"]["name"]] = body

    async def amend_event(self, _namespace, name, changes) -> int:
        self.events[name] |= changes
        return self.events[name]["count"]


@pytest.fixture
async def writer():
    kube, leads = Kube(), [True]
    nodes = {n: SimpleNamespace(metadata=SimpleNamespace(name=n, uid=f"uid-{n}")) for n in "ab"}
    cluster = SimpleNamespace(nodes=SimpleNamespace(objects=nodes))
    metrics = ProblemMetrics(CollectorRegistry())
    bucket = TokenBucket(1000, 1000)
    controller = ProblemEventController(
        NodeEventWriter(kube, cluster, metrics.dropped, is_leader=lambda: leads[0], bucket=bucket)
    )
    task = asyncio.create_task(controller.run())
    yield SimpleNamespace(kube=kube, leads=leads, occurred=controller.occurred, metrics=metrics)
    task.cancel()


async def test_repeated_problem_is_one_event_with_a_count(writer) -> None:
    for _ in range(100):
        writer.occurred(ProblemOccurred("a", EVENT))
    writer.occurred(ProblemOccurred("b", EVENT._replace(reason="Oops", message="BUG")))
    writer.occurred(ProblemOccurred("gone", EVENT))
    await eventually(lambda: len(writer.kube.events) == 2)
    first, second = sorted(writer.kube.events.values(), key=lambda e: e["involvedObject"]["name"])
    assert (first["involvedObject"]["kind"], first["metadata"]["namespace"]) == ("Node", "default")
    assert (first["type"], first["reason"], first["count"]) == ("Warning", "TaskHung", 100)
    assert second["message"] == "BUG"
    writer.occurred(ProblemOccurred("a", EVENT))
    await eventually(lambda: first["count"] == 101)


async def test_replica_that_does_not_lead_writes_nothing(writer) -> None:
    writer.leads[0] = False
    writer.occurred(ProblemOccurred("a", EVENT))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    writer.leads[0] = True
    writer.occurred(ProblemOccurred("b", EVENT))
    await eventually(lambda: writer.kube.events)
    assert [e["involvedObject"]["name"] for e in writer.kube.events.values()] == ["b"]


async def test_events_beyond_the_places_of_a_node_are_counted(writer) -> None:
    for number in range(5000):
        writer.occurred(ProblemOccurred("a", EVENT._replace(source=str(number))))
    assert writer.metrics.dropped._value.get() == 5000 - MOST_OF_NODE


async def test_count_ends_where_an_api_server_refuses_more(writer) -> None:
    for _ in range(2):
        writer.occurred(ProblemOccurred("a", EVENT._replace(times=2**32 - 1)))
    await eventually(lambda: writer.kube.events)
    (event,) = writer.kube.events.values()
    assert event["count"] == 2**31 - 1
    writer.occurred(ProblemOccurred("a", EVENT._replace(message="again")))
    await eventually(lambda: event["message"] == "again")
    assert event["count"] == 2**31 - 1
