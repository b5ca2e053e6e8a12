"""Events on pods that their policy does not apply to, on the sandbox's API server, and their number."""

from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.event_queue import EventTimings
from evaluator.core.model.pod import Pod
from evaluator.core.policy.parse import parse
from evaluator.core.signals import (
    KindListed,
    NodeSetChanged,
    PlacementChanged,
    PolicyChanged,
    wakes,
)
from evaluator.features.status.pod_controller import (
    PodCountsChanged,
    PolicyPodController,
    StatusMetrics,
)

EVENTS = "/api/v1/namespaces/default/events"
AT_ONCE = EventTimings(settle=0.0, rest=0.0, repeat=float("inf"))
ASKED = {
    "containers": [
        {"name": "c", "image": "none", "resources": {"limits": {"telemetry/scheduling": "1"}}}
    ]
}


class World:
    """The controller in a fake environment: a cache that the test fills."""

    def __init__(self, kube, rng, timings):
        self.cluster = ClusterCache()
        self.decided = SimpleNamespace(waiting_for=[])
        self.is_leader = True
        self.now = 5000.0
        self.registry = CollectorRegistry()
        self.metrics = StatusMetrics(self.registry)
        self.woken = 0
        self.controller = PolicyPodController(
            kube,
            self.cluster,
            self.decided,
            self.metrics,
            is_leader=lambda: self.is_leader,
            publish=self.cluster.signals.publish,
            timings=timings,
            pause=0.01,
            clock=lambda: self.now,
            rng=rng,
        )
        self.cluster.signals.connect(
            [
                *wakes(self.count, PodCountsChanged),
                *wakes(
                    self.controller.wake,
                    PlacementChanged,
                    PolicyChanged,
                    NodeSetChanged,
                    KindListed,
                ),
            ]
        )

    def count(self):
        self.woken += 1

    def put(self, stored):
        """Put a pod as stored in the API server."""
        self.cluster.pods.put(msgspec.json.decode(msgspec.json.encode(stored), type=Pod))

    def gauge(self, state):
        of = {"namespace": "default", "policy": "demo", "state": state}
        return self.registry.get_sample_value("plimsoll_policy_pods", of)


@pytest.fixture
def policy(tas, rule):
    return parse(tas("demo", "default", dontschedule=[rule("health Equals 2")]))


@pytest.fixture
async def start(connect, rng, background, api):
    async def make(timings=AT_ONCE):
        world = World(await connect(api.url), rng, timings)
        background(world.controller.run())
        return world

    return make


def about(listed):
    """Pod → the events on it."""
    found = {}
    for event in listed["items"]:
        found.setdefault(event["involvedObject"]["name"], []).append(event)
    return found


async def test_ignored_pod_gets_one_warning(api, start, policy):
    world = await start()
    world.cluster.policies.put(policy)
    world.put(await api.pod("lacks"))
    world.put(await api.pod("asks", **ASKED))
    listed = await api.seen(
        EVENTS, lambda listed: listed["items"] and world.gauge("following") == 1
    )
    assert list(about(listed)) == ["lacks"]
    (event,) = listed["items"]
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "PolicyNotApplied", 1)
    assert "telemetry/scheduling" in event["message"]
    assert world.gauge("ignored") == 1
    assert world.woken

    world.put(await api.pod("second"))  # the first one's event is not repeated
    listed = await api.seen(EVENTS, lambda listed: len(about(listed)) == 2)
    assert [event["count"] for event in listed["items"]] == [1, 1]


async def test_new_leader_does_not_repeat_the_warning(api, start, policy):
    world = await start()
    world.cluster.policies.put(policy)
    world.put(await api.pod("lacks"))
    await api.seen(EVENTS, lambda listed: listed["items"])
    world.controller.start_over()
    world.put(await api.pod("second"))
    listed = await api.seen(EVENTS, lambda listed: len(about(listed)) == 2)
    assert [event["count"] for event in listed["items"]] == [1, 1]


async def test_policy_that_is_created_soon_after_its_pod_causes_no_event(api, start, policy):
    world = await start(EventTimings(settle=5.0, rest=0.0, repeat=float("inf")))
    world.put(await api.pod("early", **ASKED))
    world.put(await api.pod("lost", policy="demoo", **ASKED))
    world.cluster.policies.put(policy)
    await api.seen("/api/v1/namespaces/default/pods", lambda _: world.gauge("following") == 1)
    world.now += 6.0
    world.controller.wake()
    listed = await api.seen(EVENTS, lambda listed: listed["items"])
    assert list(about(listed)) == ["lost"]
    assert "such as telemetry-policy: demo" in listed["items"][0]["message"]


async def test_deleted_policy_leaves_no_series_and_warns_its_pods(api, start, policy):
    world = await start()
    world.cluster.policies.put(policy)
    world.put(await api.pod("asks", **ASKED))
    await api.seen(EVENTS, lambda _: world.gauge("following") == 1)
    world.cluster.policies.drop(policy)
    listed = await api.seen(EVENTS, lambda listed: listed["items"])
    assert "policy demo does not exist in namespace default" in listed["items"][0]["message"]
    assert world.gauge("following") is None


async def test_follower_counts_and_writes_nothing(api, start, policy):
    world = await start()
    world.is_leader = False
    world.cluster.policies.put(policy)
    world.put(await api.pod("lacks"))
    await api.seen(EVENTS, lambda _: world.gauge("ignored") == 1)
    assert (await api.get(EVENTS))["items"] == []
