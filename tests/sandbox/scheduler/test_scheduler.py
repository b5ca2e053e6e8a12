"""The scheduler against the API server and a small extender: effects on pods, and retries."""

import asyncio
import json
import random
from collections import Counter

import pytest
from aiohttp import web

from sandbox.client.client import JSON_PATCH, ApiError
from sandbox.client.objects import EVENTS, NODES, PODS, ObjectKind
from sandbox.scheduler.extender import Extender, ExtenderSpec
from sandbox.scheduler.extenders import Extenders
from sandbox.scheduler.scheduler import Scheduler, best, unscheduled

CLASSES = ObjectKind("priorityclasses", "scheduling.k8s.io/v1", namespaced=False)
MANAGED = {"limits": {"telemetry/scheduling": 1}}


class StubExtender:
    """An extender that rejects the given nodes with the given reason."""

    def __init__(self):
        self.refuse = {}
        self.scores = {}
        self.broken = False
        self.bodies = []
        self.hold = None

    async def filter(self, request):
        body = await request.json()
        self.bodies.append(("filter", body))
        if self.hold is not None:
            entered, leave = self.hold
            entered.set()
            await leave.wait()
        if self.broken:
            return web.json_response({"Error": "no thought"})
        names = body["NodeNames"] or [item["metadata"]["name"] for item in body["Nodes"]["items"]]
        refused = {
            name: reason() if callable(reason) else reason
            for name, reason in self.refuse.items()
            if name in names
        }
        kept = [name for name in names if name not in refused]
        return web.json_response({"NodeNames": kept, "FailedNodes": refused, "Error": ""})

    async def prioritize(self, request):
        body = await request.json()
        self.bodies.append(("prioritize", body))
        if self.scores is None:
            raise web.HTTPInternalServerError
        return web.json_response(
            [{"Host": name, "Score": score} for name, score in self.scores.items()]
        )

    def asked(self, verb):
        return [body for said, body in self.bodies if said == verb]


@pytest.fixture
async def extender():
    stand_in = StubExtender()
    app = web.Application()
    app.router.add_post("/scheduler/filter", stand_in.filter)
    app.router.add_post("/scheduler/prioritize", stand_in.prioritize)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    stand_in.url = f"http://127.0.0.1:{port}/scheduler"
    yield stand_in
    await runner.cleanup()


@pytest.fixture
async def start(client, extender):
    """Run a scheduler, optionally with a configuration."""
    running = []

    async def begin(**config):
        asker = await Extender(ExtenderSpec(extender.url, **config)).__aenter__()
        binder = Scheduler(client, Extenders([asker]), rng=random.Random(1))
        running.append((asker, asyncio.create_task(binder.run())))
        return binder

    yield begin
    for asker, task in running:
        task.cancel()
        await asyncio.wait([task])
        await asker.__aexit__(None, None, None)


@pytest.fixture
def add_node(client):
    async def add(name, **labels):
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", "telemetry/scheduling": "10k"}
        status = {"capacity": amounts, "allocatable": amounts}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        created = await client.create(NODES, body)
        return await client.update(NODES, created | {"status": status}, subresource="status")

    return add


@pytest.fixture
def add_pod(client):
    async def add(name, resources=MANAGED, **spec):
        container = {"name": "c", "image": "none:1", "resources": resources}
        return await client.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"containers": [container], **spec},
            },
        )

    return add


@pytest.fixture
def bound(client, eventually):
    """Wait until a pod is bound; return the node's name."""

    async def wait(name):
        async def node():
            return (await client.get(PODS, name, "default"))["spec"].get("nodeName")

        return await eventually(node)

    return wait


@pytest.fixture
def says(client, eventually):
    """Wait until a pod's PodScheduled condition has a message with this text; return the condition."""

    async def wait(name, text):
        async def condition():
            pod = await client.get(PODS, name, "default")
            for one in pod["status"].get("conditions") or []:
                if one["type"] == "PodScheduled" and text in one.get("message", ""):
                    return one
            return None

        return await eventually(condition)

    return wait


async def events(client, name):
    found = await client.list(EVENTS, "default", fields=f"involvedObject.name={name}")
    return [(one["reason"], one["message"], one["count"]) for one in found.items]


async def test_pod_is_bound_to_the_best_node_with_an_event(
    client, start, extender, add_node, add_pod, bound, eventually
):
    for name in ("node-a", "node-b", "node-c"):
        await add_node(name)
    extender.refuse = {"node-b": "hot"}
    extender.scores = {"node-a": 3, "node-c": 10}
    binder = await start()
    await add_pod("p")
    assert await bound("p") == "node-c"
    assert await eventually(lambda: events(client, "p")) == [
        ("Scheduled", "Successfully assigned default/p to node-c", 1)
    ]
    (asked,), (ranked,) = extender.asked("filter"), extender.asked("prioritize")
    assert set(asked) == {"Pod", "Nodes", "NodeNames"}
    assert (asked["Nodes"], sorted(asked["NodeNames"])) == (None, ["node-a", "node-b", "node-c"])
    assert sorted(ranked["NodeNames"]) == ["node-a", "node-c"]
    assert asked["Pod"]["metadata"]["name"] == "p"
    assert not {"kind", "apiVersion"} & set(asked["Pod"])
    assert binder.attempts == Counter({"default/p": 1})


async def test_whole_nodes_are_sent_if_the_extender_has_no_node_cache(
    start, extender, add_node, add_pod, bound
):
    sent = await add_node("node-a", disk="ssd")
    await start(node_cache_capable=False)
    await add_pod("p")
    assert await bound("p") == "node-a"
    (asked,) = extender.asked("filter")
    expected = {key: value for key, value in sent.items() if key not in {"kind", "apiVersion"}}
    assert asked["NodeNames"] is None
    assert asked["Nodes"] == {"metadata": {}, "items": [expected]}
    assert extender.asked("prioritize") == []  # one node left: nothing to rank


async def test_rejection_is_in_condition_and_event_and_the_pod_waits(
    client, start, extender, add_node, add_pod, says, bound
):
    await add_node("node-a")
    await add_node("node-b", zone="z")
    extender.refuse = {"node-b": "demo-policy: health_metric Equals 1"}
    binder = await start()
    await add_pod("p", nodeSelector={"zone": "z"})
    text = (
        "0/2 nodes are available: 1 demo-policy: health_metric Equals 1, "
        "1 node(s) didn't match Pod's node affinity/selector."
    )
    condition = await says("p", text)
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "Unschedulable",
        text,
    )
    assert await events(client, "p") == [("FailedScheduling", text, 1)]
    assert binder.attempts["default/p"] == 1
    # An annotation on the pod is the smallest requeue event; an equal rejection is then counted, not written again.
    await client.patch(PODS, "p", {"metadata": {"annotations": {"x": "1"}}}, "default")
    await says("p", text)
    extender.refuse = {}
    await client.patch(NODES, "node-a", {"metadata": {"labels": {"zone": "z"}}})
    await bound("p")


async def test_repeated_rejections_are_one_counted_event(
    client, start, extender, add_node, add_pod, eventually
):
    await add_node("node-a")
    extender.refuse = {"node-a": "hot"}
    binder = await start()
    await add_pod("p")

    async def counted(count):
        return [one for one in await events(client, "p") if one[2] == count]

    for attempt in (1, 2, 3):
        await eventually(lambda count=attempt: counted(count))
        assert binder.attempts["default/p"] == attempt
        assert len(await events(client, "p")) == 1
        await client.patch(PODS, "p", {"metadata": {"annotations": {"x": str(attempt)}}}, "default")


async def test_constant_reason_does_not_spin_and_a_varying_one_does(
    client, start, extender, add_node, add_pod, says, eventually
):
    await add_node("node-a")
    extender.refuse = {"node-a": "hot"}
    binder = await start()
    await add_pod("p")
    await says("p", "hot")
    # A heartbeat and a no-op do not requeue. The later pod is tried, the first is not.
    status = {
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T09:15:04Z"}
            ]
        }
    }
    await client.patch(NODES, "node-a", status, subresource="status")
    await eventually(
        lambda: binder.attempts["default/p"] == 2
    )  # Ready appeared: a change of status
    status["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-20T09:15:14Z"
    await client.patch(NODES, "node-a", status, subresource="status")
    await client.patch(NODES, "node-a", {"metadata": {"labels": {}}})
    await add_pod("q")
    await says("q", "hot")
    assert binder.attempts == Counter({"default/p": 2, "default/q": 1})
    number = iter(range(1_000_000))
    extender.refuse = {"node-a": lambda: f"hot: {next(number)}"}
    await client.patch(PODS, "p", {"metadata": {"annotations": {"x": "y"}}}, "default")
    await eventually(lambda: binder.attempts["default/p"] > 20)


async def test_requeue_event_during_a_filter_call_applies_when_it_ends(
    client, start, extender, add_node, add_pod, bound, eventually
):
    await add_node("node-a")
    extender.refuse = {"node-a": "hot"}
    entered, leave = extender.hold = (asyncio.Event(), asyncio.Event())
    binder = await start()
    await add_pod("p")
    await entered.wait()
    patched = await client.patch(NODES, "node-a", {"metadata": {"annotations": {"x": "y"}}})
    await eventually(lambda: binder._nodes.objects["node-a"] == patched)
    entered.clear()
    leave.set()  # this call answers "hot"; the event causes a second one
    await entered.wait()
    extender.refuse = {}
    await client.patch(PODS, "p", {"metadata": {"annotations": {"x": "y"}}}, "default")
    assert await bound("p") == "node-a"


async def test_error_is_retried_with_backoff_only(
    client, start, extender, add_node, add_pod, says, eventually
):
    await add_node("node-a")
    extender.broken = True
    binder = await start()
    await add_pod("p")
    condition = await says("p", "no thought")
    assert condition["reason"] == "SchedulerError"
    assert binder._pending.due() > binder._clock()
    await client.patch(PODS, "p", {"metadata": {"annotations": {"x": "y"}}}, "default")
    extender.broken = False
    await eventually(lambda: binder.attempts["default/p"] == 2)


async def test_failed_prioritize_is_ignored(start, extender, add_node, add_pod, bound):
    await add_node("node-a")
    await add_node("node-b")
    extender.scores = None
    await start()
    await add_pod("p")
    assert await bound("p") in {"node-a", "node-b"}


async def test_pod_without_the_managed_resource_never_reaches_the_extender(
    start, extender, add_node, add_pod, bound
):
    await add_node("node-a")
    extender.refuse = {"node-a": "hot"}
    await start()
    await add_pod("p", resources={"requests": {"cpu": "1"}})
    assert await bound("p") == "node-a"
    assert extender.bodies == []


async def test_gated_pod_is_not_tried_until_ungated(
    client, start, extender, add_node, add_pod, bound, says
):
    await add_node("node-a")
    binder = await start()
    await add_pod("gated", schedulingGates=[{"name": "plimsoll.io/gang"}])
    await add_pod("free")
    assert await bound("free") == "node-a"
    assert (await says("gated", "non-empty scheduling gates"))["reason"] == "SchedulingGated"
    assert binder.attempts["default/gated"] == 0
    lift = ({"op": "remove", "path": "/spec/schedulingGates/0"},)
    await client.patch(PODS, "gated", lift, "default", content_type=JSON_PATCH)
    assert await bound("gated") == "node-a"


async def test_pods_are_tried_in_creation_order_whichever_gate_is_lifted_first(
    client, start, extender, add_node, add_pod, bound, eventually
):
    await add_node("node-a")
    binder = await start()
    names = ("first", "second", "third")
    for name in names:
        await add_pod(name, schedulingGates=[{"name": "plimsoll.io/gang"}])
    entered, leave = extender.hold = (asyncio.Event(), asyncio.Event())
    await add_pod("busy")
    await entered.wait()
    for name in reversed(names):
        await client.patch(PODS, name, {"spec": {"schedulingGates": None}}, "default")
    seen = binder._pods.objects
    await eventually(
        lambda: not any("schedulingGates" in seen[f"default/{one}"]["spec"] for one in names)
    )
    leave.set()
    for name in names:
        await bound(name)
    order = [body["Pod"]["metadata"]["name"] for body in extender.asked("filter")]
    assert order == ["busy", *names]


async def test_pod_of_another_scheduler_is_left_alone(
    client, start, extender, add_node, add_pod, bound
):
    await add_node("node-a")
    binder = await start()
    await add_pod("other", schedulerName="other-scheduler")
    await add_pod("ours")
    await bound("ours")
    assert binder.attempts == Counter({"default/ours": 1})
    assert "nodeName" not in (await client.get(PODS, "other", "default"))["spec"]


async def test_capacity_includes_pods_just_bound(client, start, add_node, add_pod, bound, says):
    await add_node("node-a")
    await start()
    for name in ("p", "q", "r"):
        await add_pod(name, resources={"requests": {"cpu": "1500m"}})
    await bound("p")
    await bound("q")
    await says("r", "0/1 nodes are available: 1 Insufficient cpu.")
    await client.delete(PODS, "p", "default", grace=0)
    assert await bound("r") == "node-a"


async def test_higher_priority_goes_first(client, start, extender, add_node, add_pod, bound):
    await start()
    for name, value in (("high", 10), ("middle", 5)):
        meta = {"metadata": {"name": name}}
        body = {"apiVersion": CLASSES.api_version, "kind": "PriorityClass", "value": value, **meta}
        await client.create(CLASSES, body)
    await add_pod("low")
    for name in ("middle", "high"):
        await add_pod(name, priorityClassName=name)
    await add_node("node-a")
    for name in ("low", "high", "middle"):
        await bound(name)
    order = [body["Pod"]["metadata"]["name"] for body in extender.asked("filter")]
    assert order[-3:] == ["high", "middle", "low"]


async def test_cluster_without_nodes_is_reported(start, add_pod, says):
    await start()
    await add_pod("p")
    assert (await says("p", "no nodes available to schedule pods"))["reason"] == "Unschedulable"


async def test_waiting_pod_that_is_deleted_is_forgotten(
    client, start, extender, add_node, add_pod, says, bound, eventually
):
    await add_node("node-a")
    extender.refuse = {"node-a": "hot"}
    binder = await start()
    await add_pod("p")
    await says("p", "hot")
    await client.delete(PODS, "p", "default")
    with pytest.raises(ApiError, match="404"):
        await client.get(PODS, "p", "default")
    await eventually(lambda: "default/p" not in binder._pending)
    assert "default/p" not in binder.attempts


def test_best_node_is_drawn_among_equal_scores():
    drawn = {
        best(["a", "b", "c"], {"a": 4, "b": 9, "c": 9}, random.Random(seed)) for seed in range(20)
    }
    assert drawn == {"b", "c"}
    assert {best(["a", "b"], {}, random.Random(seed)) for seed in range(20)} == {"a", "b"}


def test_unchanged_condition_is_not_written(pod):
    first = unscheduled(pod(), "Unschedulable", "no", now=0)
    (written,) = first["status"]["conditions"]
    waiting = pod(status={"conditions": [written]})
    assert unscheduled(waiting, "Unschedulable", "no", now=60) is None
    (again,) = unscheduled(waiting, "Unschedulable", "still no", now=60)["status"]["conditions"]
    assert again["message"] == "still no"
    assert again["lastTransitionTime"] == written["lastTransitionTime"]  # it was False before
    assert json.dumps(first)
