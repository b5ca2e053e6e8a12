"""A slow, throttling or silent API server is neither flooded with retries nor waited for without end."""

import pytest

pytestmark = pytest.mark.e2e


def requests(world, wanted):
    return sum(1 for asked in world.proxy.asked if wanted(*asked))


async def test_retry_after_pauses_label_writes_only(world, faults):
    """The pause applies to all label writes, and to nothing else."""
    busy = faults.says(429, "too many requests", headers={"Retry-After": "3"})
    world.proxy.faults = faults.only(faults.is_write, busy)
    begin = requests(world, lambda method, *_: method == "PATCH")
    world.nodes["node-b"].value = 1.0
    await world.until(lambda: requests(world, lambda method, *_: method == "PATCH") > begin)
    world.nodes["node-c"].value = 1.0
    await world.until(lambda: world.refused() == {"node-a", "node-b", "node-c"})
    await world.rule(2)
    await world.until(lambda: world.refused() == set())
    labels = "/api/v1/nodes/"
    assert requests(world, lambda _, path, __: path.startswith(labels)) <= begin + 2
    world.proxy.faults = faults.passes
    await world.until(lambda: not world.labelled())
    assert world.labels["node-c"] == [None]


async def test_dead_watch_is_reopened(world, faults):
    """Neither reset nor closed: as if a load balancer had dropped the connection."""
    watches = requests(world, lambda _, __, watch: watch)
    dead = world.proxy.hold_watches()
    world.nodes["node-b"].value = 1.0
    await world.rule(2)
    await world.until(lambda: world.refused() == set())
    assert requests(world, lambda _, __, watch: watch) > watches
    assert dead


@pytest.mark.parametrize("kind", ["watches end at once", "410", "500", "no watch is opened"])
async def test_immediate_failure_is_retried_with_backoff(world, faults, kind):
    act = {
        "watches end at once": faults.ends_watches(0),
        "410": faults.expires_watches,
        "500": faults.says(500, "no"),
        "no watch is opened": faults.only(faults.is_watch, faults.resets),
    }[kind]
    world.proxy.spoil(act)
    world.proxy.asked.clear()
    await world.answered(100)  # two seconds or more
    assert len(world.proxy.asked) < 60
    world.proxy.spoil(faults.passes)
    world.nodes["node-b"].value = 1.0
    await world.until(lambda: "node-b" in world.labelled())


async def test_hanging_label_write_blocks_no_other_node(world, faults):
    def is_node_b(request):
        return request.method == "PATCH" and request.path == "/api/v1/nodes/node-b"

    world.proxy.faults = faults.only(is_node_b, faults.hangs)
    world.nodes["node-b"].value = 1.0
    await world.until(lambda: requests(world, lambda _, path, __: path.endswith("/node-b")))
    world.nodes["node-c"].value = 1.0
    await world.until(lambda: "node-c" in world.labelled())
    await world.rule(2)
    await world.until(lambda: world.labelled() == set())
    assert "node-b" not in world.labelled()
