"""Node labels written to a real API socket: exactly what is wanted, despite other writers and failures."""

import asyncio
import json
import random
import time
from types import SimpleNamespace

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from evaluator.core.cache import cluster
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.resources import NODES
from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import WriteFence
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.node_labels import LabelConflict
from evaluator.core.policy.decide import Decisions
from evaluator.core.signals import NodeLabelsChanged, PolicyReportChanged, on_node, wakes
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.labels.feature import (
    LabelConflicts,
    LabelMetrics,
    conflicting_keys,
    label_writer,
)
from plimsoll.ratelimit import TokenBucket
from tests.clock import Clock
from tests.evaluator.core.writes.from_scratch import label_writes
from tests.patience import PATIENCE


class Labeling:
    """A label controller in a fake environment: given decisions, nodes from the API server."""

    def __init__(self, kube, rng, bucket=None):
        self.registry = CollectorRegistry()
        self.metrics = LabelMetrics(self.registry)
        self.cluster = ClusterCache()
        self.decided = SimpleNamespace(latest=Decisions(), waiting_for=[])
        self.clock = Clock()
        self.fence = WriteFence(clock=self.clock)
        self.fence.extend()
        kube.fence = self.fence.write
        context = WriteContext(
            kube=kube,
            cluster=self.cluster,
            decider=self.decided,
            bucket=bucket or TokenBucket(rate=1e6, burst=1000),
            is_leader=self.fence.is_leader,
            rng=rng,
        )
        self.conflicts = LabelConflicts(self.cluster, self.metrics, self.cluster.signals.publish)
        self.labeler = label_writer(context, self.conflicts, self.metrics.label_writes)
        self.cluster.signals.connect(
            [
                on_node(NodeLabelsChanged, self.conflicts.node_changed),
                on_node(NodeLabelsChanged, self.labeler.wake),
            ]
        )
        self.watcher = Reflector(kube, NODES, cluster.decode_node, self.cluster.nodes, rng=rng)

    def want(self, **labels):
        """Node → labels; `_` in a node name stands for `-`."""
        wanted = {node.replace("_", "-"): given for node, given in labels.items()}
        self.decided.latest = Decisions(labels=wanted)
        self.labeler.wake()

    def written(self, result="ok"):
        name = "plimsoll_label_writes_total"
        return self.registry.get_sample_value(name, {"result": result}) or 0


@pytest.fixture
async def world(api, connect, rng, background, until):
    """Nodes node-a, node-b and node-c on the sandbox's API server, watched and labelled."""
    for node in ("node-a", "node-b", "node-c"):
        await api.node(node)
    made = Labeling(await connect(api.url), rng)
    background(made.watcher.run())
    await until(lambda: len(made.cluster.nodes.objects) == 3)
    background(made.labeler.run())
    return made


def has(labels):
    return lambda node: labels.items() <= node["metadata"].get("labels", {}).items()


def lacks(key):
    return lambda node: key not in node["metadata"].get("labels", {})


async def test_labels_are_set_changed_and_removed(api, world):
    world.want(node_a={"demo": "violating"}, node_b={"demo": "violating", "x.y/z": "1"})
    await api.seen("/api/v1/nodes/node-b", has({"demo": "violating", "x.y/z": "1"}))
    await api.seen("/api/v1/nodes/node-a", has({"demo": "violating"}))
    world.want(node_b={"x.y/z": "2"})
    await api.seen("/api/v1/nodes/node-b", has({"x.y/z": "2"}))
    await api.seen("/api/v1/nodes/node-a", lacks("demo"))
    assert await api.labels("node-b") == {"x.y/z": "2"}
    assert await api.labels("node-c") == {}


async def test_nothing_is_written_when_nothing_changed(api, world, until):
    world.want(node_a={"demo": "violating"})
    await until(lambda: world.written() == 1)
    version = (await api.get("/api/v1/nodes/node-a"))["metadata"]["resourceVersion"]
    for _ in range(3):
        world.want(node_a={"demo": "violating"})
        # A kubelet's heartbeat, which the label controller must ignore.
        heartbeat = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await api.merge("/api/v1/nodes/node-b/status", heartbeat)
    world.want(node_a={"demo": "violating"}, node_c={"last": "1"})
    await api.seen("/api/v1/nodes/node-c", has({"last": "1"}))
    assert world.written() == 2
    assert (await api.get("/api/v1/nodes/node-a"))["metadata"]["resourceVersion"] == version


async def test_nothing_is_written_before_the_first_decision(api, world, until):
    world.want(node_a={"demo": "violating"})
    await until(lambda: world.written() == 1)
    world.decided.waiting_for = ["the first report of 3 nodes"]
    world.want()
    for _ in range(50):  # event loop iterations in which an unfenced controller would have written
        await asyncio.sleep(0.001)
    world.decided.waiting_for = []
    world.want(node_a={"demo": "violating"}, node_b={"next": "1"})
    await api.seen("/api/v1/nodes/node-b", has({"next": "1"}))
    assert world.written() == 2
    assert await api.labels("node-a") == {"demo": "violating"}


async def test_user_labels_are_never_changed(api, world):
    await api.merge("/api/v1/nodes/node-a", {"metadata": {"labels": {"zone": "1", "demo": "mine"}}})
    world.want(node_a={"demo": "violating", "other": "1"})
    await api.seen("/api/v1/nodes/node-a", has({"other": "1"}))
    assert await api.labels("node-a") == {"zone": "1", "demo": "mine", "other": "1"}
    assert world.conflicts.latest == (LabelConflict("node-a", "demo", "violating", "mine"),)
    world.want()
    await api.seen("/api/v1/nodes/node-a", lacks("other"))
    assert await api.labels("node-a") == {"zone": "1", "demo": "mine"}


async def test_ended_conflict_is_cleared(api, world, until):
    told = []
    world.cluster.signals.connect(
        wakes(lambda: told.append(world.conflicts.latest), PolicyReportChanged)
    )
    await api.merge("/api/v1/nodes/node-a", {"metadata": {"labels": {"demo": "mine"}}})
    world.want(node_a={"demo": "violating"})
    await until(lambda: world.conflicts.latest)
    await api.merge("/api/v1/nodes/node-a", {"metadata": {"labels": {"demo": None}}})
    await api.seen("/api/v1/nodes/node-a", has({"demo": "violating"}))
    await until(lambda: not world.conflicts.latest)
    assert [len(conflicts) for conflicts in told] == [1, 0]


async def test_unexpected_409_drops_only_the_conflicting_key(api, world, until):
    """Two appliers share a key; only the server knows of the other one."""
    world.want(node_a={"shared": "1", "ours": "1"})
    await until(lambda: world.written() == 1)
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"shared": "1"}}}
    body["metadata"]["name"] = "node-a"
    await api.apply("/api/v1/nodes/node-a", body, "somebody-else")
    world.want(node_a={"shared": "2", "ours": "2"})
    await api.seen("/api/v1/nodes/node-a", has({"shared": "1", "ours": "2"}))
    await until(lambda: world.conflicts.latest)
    assert world.conflicts.latest == (LabelConflict("node-a", "shared", "2", "1"),)
    assert world.written("error") == 0


async def test_own_label_deleted_by_a_user_is_restored(api, world):
    world.want(node_a={"demo": "violating"})
    await api.seen("/api/v1/nodes/node-a", has({"demo": "violating"}))
    await api.merge("/api/v1/nodes/node-a", {"metadata": {"labels": {"demo": None}}})
    await api.seen("/api/v1/nodes/node-a", has({"demo": "violating"}))


async def test_deleted_node_is_not_created_again(api, world, until):
    world.labeler.wake()
    await api.delete("/api/v1/nodes/node-a")
    await until(lambda: "node-a" not in world.cluster.nodes.objects)
    ghost = Node(NodeMeta(name="node-a", uid="uid-of-the-old-one", resource_version="1"))
    world.cluster.nodes.put(ghost)  # as if the watch lagged
    world.want(node_a={"demo": "violating"}, node_b={"demo": "violating"})
    await api.seen("/api/v1/nodes/node-b", has({"demo": "violating"}))
    await until(lambda: world.written("error") > 0)
    await api.call("GET", "/api/v1/nodes/node-a", status=404)
    world.cluster.nodes.drop(ghost)
    world.want(node_c={"demo": "violating"})
    await api.seen("/api/v1/nodes/node-c", has({"demo": "violating"}))


async def test_recreated_node_is_labelled_again(api, world, until):
    world.want(node_a={"demo": "violating"})
    await until(lambda: world.written() == 1)
    await api.delete("/api/v1/nodes/node-a")
    await api.node("node-a")
    await api.seen("/api/v1/nodes/node-a", has({"demo": "violating"}))


@pytest.mark.parametrize("seed", range(4))
async def test_final_labels_equal_a_plan_from_scratch(api, world, seed):
    """Decisions, other writers and recreated nodes, faster than labels are written."""
    chance, nodes, wanted = random.Random(seed), ("node-a", "node-b", "node-c"), {}

    def some():
        return {key: chance.choice("vw") for key in ("p", "q") if chance.random() < 0.6}

    async def change():
        nonlocal wanted
        node = chance.choice(nodes)
        match chance.randrange(8):
            case 0:
                theirs = {chance.choice("pq"): chance.choice(["v", "x", None])}
                await api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": theirs}})
            case 1:
                await api.delete(f"/api/v1/nodes/{node}")
                await api.node(node)
            case _:
                wanted = {name: labels for name in nodes if (labels := some())}
                world.want(**{name.replace("-", "_"): labels for name, labels in wanted.items()})

    async def left():
        """The remaining writes of a plan from scratch, and its conflicts."""
        found = [await api.get(f"/api/v1/nodes/{node}") for node in nodes]
        seen = [cluster.decode_node(json.dumps(node)) for node in found]
        labels = {node.metadata.name: node.node_labels for node in seen}
        applies, conflicts = label_writes(labels, wanted)
        return applies, set(conflicts) ^ set(world.conflicts.latest)

    for _ in range(60):
        await change()
        await asyncio.sleep(chance.choice([0.0, 0.0, 0.005, 0.03]))
    async with asyncio.timeout(PATIENCE):
        while await left() != ([], set()):  # noqa: ASYNC110 (the server has no event for it)
            await asyncio.sleep(0.01)


def answers_but(refused, status):
    """A stub server that applies labels and rejects the first writes to node-bad."""
    left = [refused]

    async def answer(request):
        name = request.path.rpartition("/")[2]
        if name == "node-bad" and left[0]:
            left[0] -= 1
            return web.json_response({"message": "no"}, status=status)
        asked = await request.json()
        owned = {f"f:{key}": {} for key in asked["metadata"]["labels"]}
        managed = {
            "manager": "plimsoll",
            "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:labels": owned}},
        }
        metadata = {**asked["metadata"], "resourceVersion": "2", "managedFields": [managed]}
        return web.json_response({"metadata": metadata})

    return answer


@pytest.fixture
async def failing(stub_server, connect, rng, background):
    """node-bad and node-good on a server that rejects the first writes to node-bad."""

    async def start(refused, status=500):
        stub_server.otherwise(answers_but(refused, status))
        made = Labeling(await connect(stub_server.url), rng)
        made.cluster.nodes.replace(
            [
                Node(NodeMeta(name=n, uid=f"u-{n}", resource_version="1"))
                for n in ("node-bad", "node-good")
            ]
        )
        background(made.labeler.run())
        return made

    return start


async def test_response_older_than_the_watch_is_ignored(failing, until):
    world = await failing(0)  # it answers with resourceVersion 2
    newer = Node(NodeMeta(name="node-good", uid="u", resource_version="5", labels={"zone": "1"}))
    world.cluster.nodes.put(newer)
    world.want(node_good={"demo": "violating"})
    await until(lambda: world.written() >= 1)
    assert world.cluster.nodes.objects["node-good"] == newer


async def test_decision_made_during_a_write_is_written_afterwards(failing, stub_server, until):
    """Also if the watch was faster than the response, which then adds nothing."""
    go = asyncio.Event()
    answer = answers_but(0, 500)

    async def slowly(request):
        await go.wait()
        return await answer(request)

    world = await failing(0)
    stub_server.then(slowly)
    world.want(node_good={"demo": "1"})
    await stub_server.until(1)
    ours = NodeMeta(
        name="node-good",
        uid="u-node-good",
        resource_version="2",
        labels={"demo": "1"},
        owned_labels=frozenset({"demo"}),
    )
    world.cluster.nodes.put(Node(ours))
    world.want(node_good={"demo": "2"})
    for _ in range(50):  # event loop iterations in which a second write would start
        await asyncio.sleep(0.001)
    assert len(stub_server.asked) == 1
    go.set()
    await until(lambda: world.written() == 2)
    assert [asked.json["metadata"]["labels"] for asked in stub_server.asked] == [
        {"demo": "1"},
        {"demo": "2"},
    ]


@pytest.mark.parametrize("status", [403, 409, 422, 500])
async def test_failed_write_is_retried(failing, until, status):
    world = await failing(2, status)
    world.want(node_bad={"demo": "violating"})
    await until(lambda: world.written() == 1)
    assert world.written("error") == 2


async def test_failing_node_delays_no_other(failing, stub_server, until):
    """An admission webhook that rejects one node must not delay the labels of all others."""
    world = await failing(10**6)
    world.want(node_bad={"demo": "violating"})
    await until(lambda: world.written("error") == 6)  # by now its next attempt is a second away
    tries = len(stub_server.asked)
    for value in range(20):
        world.want(node_bad={"demo": "violating"}, node_good={"value": str(value)})
        await until(lambda wanted=value + 1: world.written() == wanted)
    assert len(stub_server.asked) - tries <= 20 + 2


async def test_nodes_beyond_one_batch_are_all_written(stub_server, connect, rng, background, until):
    stub_server.otherwise(answers_but(0, 500))
    world = Labeling(await connect(stub_server.url), rng)
    names = [f"n{number}" for number in range(150)]
    world.cluster.nodes.replace(
        [Node(NodeMeta(name=n, uid=n, resource_version="1")) for n in names]
    )
    background(world.labeler.run())
    world.decided.latest = Decisions(labels={name: {"demo": "violating"} for name in names})
    world.labeler.wake()
    await until(lambda: world.written() == len(names))
    assert sorted(a.path.rpartition("/")[2] for a in stub_server.asked) == sorted(names)


@pytest.fixture
async def many_nodes(stub_server, connect, rng, background):
    """Nodes that all need a label, on a stub server."""

    async def start(count, bucket=None):
        made = Labeling(await connect(stub_server.url), rng, bucket)
        names = [f"n{number}" for number in range(count)]
        made.cluster.nodes.replace(
            [Node(NodeMeta(name=n, uid=n, resource_version="1")) for n in names]
        )
        made.decided.latest = Decisions(labels={name: {"demo": "violating"} for name in names})
        background(made.labeler.run())
        return made

    return start


async def test_conflicts_on_many_nodes_are_one_repeated_line(
    stub_server, connect, rng, background, until, log_lines
):
    """A policy named like a label of all nodes, repeatedly toggled."""
    lines = log_lines("logfmt")
    stub_server.otherwise(answers_but(0, 500))
    world = Labeling(await connect(stub_server.url), rng)
    names = [f"n{number}" for number in range(300)]
    theirs = [
        Node(NodeMeta(name=n, uid=n, resource_version="1", labels={"demo": "mine"})) for n in names
    ]
    world.cluster.nodes.replace(theirs)
    told = []
    world.cluster.signals.connect(
        wakes(lambda: told.append(len(world.conflicts.latest)), PolicyReportChanged)
    )
    background(world.labeler.run())
    for turn in range(1, 61):
        on = turn % 2
        world.decided.latest = Decisions(labels={n: {"demo": "violating"} for n in names * on})
        world.labeler.wake()
        await until(lambda turn=turn: len(told) == turn)
    assert told == [300, 0] * 30
    found = [line for line in lines() if "another field manager owns it" in line]
    assert 1 <= len(found) <= 21
    assert "nodes=300" in found[0]
    assert all(line.count("n1") <= 10 for line in found)


async def test_lost_leadership_stops_the_batch(many_nodes, stub_server, until):
    """Eight requests are in flight: they are cancelled, and no other is sent."""
    world = await many_nodes(100)
    world.labeler.wake()
    await stub_server.until(8)
    world.fence.end()
    await until(lambda: world.labeler.idle)
    world.labeler.wake()
    for _ in range(50):  # event loop iterations in which an unfenced controller would have written
        await asyncio.sleep(0.001)
    assert len(stub_server.asked) == 8
    assert world.written("error") == 0
    stub_server.otherwise(answers_but(0, 500))
    world.fence.extend()
    world.labeler.start_over()
    await until(lambda: world.written() == 100)


async def test_process_suspended_past_its_lease_writes_nothing(many_nodes, stub_server, until):
    world = await many_nodes(3)
    world.fence.extend(world.clock.now + 10)
    world.clock.now += 60  # suspended, and resumed a minute later: no timer has run
    world.labeler.wake()
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert stub_server.asked == []
    stub_server.otherwise(answers_but(0, 500))
    world.fence.extend(world.clock.now + 10)
    world.labeler.start_over()
    await until(lambda: world.written() == 3)


async def test_writes_respect_the_rate_limit(many_nodes, stub_server, until):
    """A burst at once; the next write is allowed an hour later."""
    stub_server.otherwise(answers_but(0, 500))
    world = await many_nodes(20, TokenBucket(rate=1 / 3600, burst=5))
    world.labeler.wake()
    await until(lambda: world.written() == 5)
    for _ in range(50):
        world.labeler.wake()
        await asyncio.sleep(0.001)
    assert len(stub_server.asked) == 5


async def test_retry_after_is_respected(many_nodes, stub_server, until):
    """429 with Retry-After: no node is written before then."""

    class Noting(TokenBucket):
        until = None

        def empty(self, until):
            self.until = until

    async def busy(_request):
        return web.Response(status=429, headers={"Retry-After": "7"})

    stub_server.otherwise(busy)
    bucket = Noting(rate=1e6, burst=1000)
    world = await many_nodes(1, bucket)
    before = time.monotonic()
    world.labeler.wake()
    await until(lambda: world.written("error") == 1)
    assert bucket.until >= before + 7


@pytest.mark.parametrize(
    ("causes", "keys"),
    [
        ([], set()),
        ([{"reason": "FieldManagerConflict", "field": ".metadata.labels.demo"}], {"demo"}),
        ([{"reason": "FieldManagerConflict", "field": ".metadata.labels.a.b/c"}], {"a.b/c"}),
        ([{"reason": "FieldManagerConflict", "field": ".metadata.annotations.x"}], set()),
        ([{"reason": "Other", "field": ".metadata.labels.demo"}], set()),
        ([{"reason": "FieldManagerConflict"}], set()),
        ([{}], set()),
    ],
)
def test_conflicting_keys_are_parsed_from_a_409(causes, keys):
    assert conflicting_keys(KubeError(409, "conflict", causes=tuple(causes))) == keys
