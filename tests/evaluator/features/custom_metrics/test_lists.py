"""Lists of many nodes: reuse, steps, and the round trip through the custom metrics source."""

import asyncio
import random

import msgspec
import pytest

from evaluator.core.cache.pods import PodCache
from evaluator.core.model import pod_record
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.signals import PodChanged, on
from evaluator.core.sources.custom_metrics import CustomMetrics
from evaluator.features.custom_metrics.lists import PodsByNamespace
from evaluator.features.custom_metrics.readings import EncodedBodies, Measured

ALL = "v1beta2/nodes/*/load"


@pytest.fixture
def many(world):
    """A thousand nodes that report."""
    made = world("load")
    for number in range(1000):
        made.node(f"node-{number:04d}")
        made.report(f"node-{number:04d}", load=number / 8)
    return made


async def test_list_is_made_once_while_readings_are_the_same(many):
    first, _ = await many.get(ALL)
    again, _ = await many.get(ALL)
    assert again.body.parts is first.body.parts
    many.report("node-0007", load=7.0)
    changed, _ = await many.get(ALL)
    assert changed.body.parts is not first.body.parts
    assert (await many.items(ALL))["node-0007"] == "7"


async def test_confirmed_readings_have_new_timestamps_after_a_second(many):
    many.now += 0.8
    first, _ = await many.get(ALL)
    many.now += 0.4
    many.report("node-0007")
    soon, _ = await many.get(ALL)
    assert soon.body.parts is first.body.parts
    many.now += 0.8
    later, body = await many.get(ALL)
    assert later.body.parts is not first.body.parts
    assert body.count(b"2023-11-14T22:30:00Z") == 999
    assert body.count(b"2023-11-14T22:30:01Z") == 1


async def test_concurrent_requests_share_one_list(many):
    responses = await asyncio.gather(*(many.get(ALL) for _ in range(8)))
    assert len({id(response.body.parts) for response, _ in responses}) == 1


async def test_event_loop_runs_while_a_list_is_made(many):
    request = asyncio.create_task(many.get(ALL))
    turns = 0
    while not request.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 2


async def test_too_many_waiting_requests_are_rejected(world):
    metrics = [f"metric_{number}" for number in range(80)]
    made = world(*metrics)
    made.node("node-a")
    made.report("node-a", **dict.fromkeys(metrics, 1.0))
    found = await asyncio.gather(*(made.get(f"v1beta2/nodes/*/{name}") for name in metrics))
    refused = [response for response, _ in found if response.status == 429]
    assert len(refused) == 80 - 65  # one is made while 64 wait
    assert dict(refused[0].headers)["retry-after"] == "1"


async def test_long_selector_is_matched_in_small_steps(many):
    request = asyncio.create_task(
        many.items(ALL, labelSelector=",".join(f"!label-{number}" for number in range(200)))
    )
    turns = 0
    while not request.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(await request) == 1000
    assert turns > 10


async def test_source_pointed_at_the_api_returns_every_value(world, serve, connect):
    rng = random.Random(1)
    made = world("load")
    expected = {}
    for number in range(300):
        name = f"node-{number}"
        made.node(name)
        expected[name] = rng.choice([rng.random(), rng.uniform(-1e12, 1e12), float(number)])
        made.report(name, load=expected[name])
    site = await serve(made.api.answer)
    api = await connect(f"http://127.0.0.1:{site.address.port}")
    answer = await CustomMetrics(api).fetch("load")
    assert {name: reading.value for name, reading in answer.readings.items()} == expected
    assert answer.flaws == ()


async def test_not_modified_has_no_length_and_keeps_the_connection(world, serve):
    client = await (await serve(world("load").api.answer)).connect()
    etag = (await client.get("/apis")).headers["etag"]
    unchanged = await client.get("/apis", f"If-None-Match: {etag}")
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert "content-length" not in unchanged.headers
    assert (await client.get("/livez")).status == 200


def test_least_recently_used_lists_are_dropped_first():
    bodies = EncodedBodies(most_bytes=20)
    measured = Measured(NodeIndex(), *[NodeIndex()] * 3)
    for name in "abc":
        bodies.put(("v1beta2", name), measured, [b"1234567"], 0.0)
        bodies.find(("v1beta2", "a"), measured, 0.0)
    kept = [name for name in "abc" if bodies.find(("v1beta2", name), measured, 0.0)]
    assert kept == ["a", "c"]


def pod(name, node="node-a", *, namespace="default", phase="Running", uid="1", **labels):
    return pod_record.decode(
        msgspec.Raw(
            msgspec.json.encode(
                {
                    "metadata": {
                        "name": name,
                        "namespace": namespace,
                        "uid": uid,
                        "labels": labels,
                    },
                    "spec": {"nodeName": node},
                    "status": {"phase": phase},
                }
            )
        ),
        labels=True,
    )


def watched():
    cache, found = PodCache(clock=lambda: 0.0, wall=lambda: 0.0), PodsByNamespace()
    cache.signals.connect([on(PodChanged, found.change)])
    return cache.pods, found


def test_bound_pods_are_found_by_namespace():
    pods, found = watched()
    pods.replace(
        [pod("a"), pod("b", namespace="other"), pod("c", node=""), pod("d", phase="Failed")]
    )
    assert set(found.in_namespace("default")) == {"a"}
    assert set(found.in_namespace("other")) == {"b"}
    assert not found.in_namespace("none")


def test_pod_is_known_from_its_binding_to_its_end():
    pods, found = watched()
    pods.put(pod("a", node=""))
    assert not found.in_namespace("default")
    pods.put(pod("a", node="node-b"))
    assert found.in_namespace("default")["a"].node == "node-b"
    pods.put(pod("a", node="node-b", phase="Succeeded"))
    assert not found.in_namespace("default")
    pods.drop(pod("a"))
    assert not found.in_namespace("default")


def test_deleted_and_replaced_pods_are_dropped():
    pods, found = watched()
    pods.replace([pod("a"), pod("b")])
    pods.put(pod("a", node="node-c", uid="2"))
    assert found.in_namespace("default")["a"].node == "node-c"
    pods.replace([pod("b")])
    assert set(found.in_namespace("default")) == {"b"}


def test_labels_are_kept_only_on_request_and_shared():
    one, other = pod("a", app="web", zone="1"), pod("b", zone="1", app="web")
    assert one.labels == (("app", "web"), ("zone", "1"))
    assert one.labels is other.labels
    raw = msgspec.Raw(b'{"metadata":{"name":"a","namespace":"n","labels":{"app":"web"}}}')
    assert pod_record.decode(raw).labels == ()
