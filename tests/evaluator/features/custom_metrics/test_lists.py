"""Lists of many nodes: reuse, steps, and the round trip through the custom metrics source."""

import asyncio
import random

import pytest

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.sources.custom_metrics import CustomMetrics
from evaluator.features.custom_metrics.bodies import EncodedBodies, Measured

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
