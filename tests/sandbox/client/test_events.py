"""Events of the sandbox's own components."""

import itertools

from sandbox.client import events


async def test_event_is_found_by_its_message_among_others_of_its_reason(client, pod):
    """A pod is tried before the extender answers, and again afterwards: both events are FailedScheduling."""
    about = pod("web")
    times = itertools.count(1_800_000_000)
    recorder = events.EventRecorder(client, "default-scheduler", clock=lambda: float(next(times)))
    for message in ("the extender: 503 not ready", "0/1 nodes are available: 1 violating demo"):
        await recorder.record(about, "FailedScheduling", message, kind="Warning")
    found = await events.find(client, "default", "web", "FailedScheduling", saying="violating demo")
    assert found["message"] == "0/1 nodes are available: 1 violating demo"
    assert await events.find(client, "default", "web", "FailedScheduling")
    assert not await events.find(client, "default", "web", "FailedScheduling", saying="else")
    assert not await events.find(client, "default", "web", "Scheduled")
