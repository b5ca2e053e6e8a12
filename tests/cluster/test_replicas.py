"""Several real evaluators on one cluster: all answer the scheduler, one writes, and failover."""

import asyncio
import contextlib
import itertools
import json
import os
import signal

import pytest

from sandbox.client.objects import NODES
from tests.cluster.replicas import SHORT
from tests.patience import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.features("node_actions", "pages")]

LONG = ("--leaseDuration=1h", "--renewDeadline=30m", "--retryPeriod=100ms")


LAG = 1.0
"""Seconds from a failed readiness probe until kube-proxy has removed an endpoint, in a rollout."""


class Record:
    """The label history of every node: node → values, each change once."""

    def __init__(self, client, label):
        self._client = client
        self._label = label
        self.values = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, client, label):
        made = cls(client, label)
        listing = await client.list(NODES)
        for node in listing.items:
            made._note(node)
        watching = asyncio.create_task(made._watch(listing.version))
        try:
            yield made
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _watch(self, version):
        async for kind, node in self._client.watch(NODES, version):
            if kind != "BOOKMARK":
                self._note(node)

    def _note(self, node):
        value = (node["metadata"].get("labels") or {}).get(self._label)
        history = self.values.setdefault(node["metadata"]["name"], [])
        if not history or history[-1] != value:
            history.append(value)


@contextlib.asynccontextmanager
async def load(evaluators, pod, nodes):
    """Send requests to each of these continuously; yields the number of answers per port. A failed request fails the test."""
    answered = dict.fromkeys(evaluators, 0)

    async def ask(one):
        while True:
            reply = await one.filter(pod, nodes)
            assert reply["Error"] == "", reply
            answered[one] += 1

    tasks = [asyncio.create_task(ask(one)) for one in evaluators]
    try:
        yield answered
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def asking(world, policy):
    meta = {"name": "p", "namespace": world.namespace, "labels": {"telemetry-policy": policy}}
    return {"metadata": meta}


async def test_leader_killed_under_load_interrupts_no_request(world, replicas):
    nodes = [await world.add_node(f"n{number}") for number in range(12)]
    sick, flipping = nodes[:6], nodes[6:]
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    await replicas.start(3, *SHORT)
    for node in nodes:
        replicas.say(node, health=2 if node in sick else 0)
    await replicas.ready()
    leader = await replicas.leader()
    for node in sick:
        await world.labelled(node, **{policy: "violating"})
    survivors = [one for one in replicas.all if one is not leader]

    async with (
        Record.of(world.client, policy) as record,
        load([one.evaluator for one in survivors], asking(world, policy), nodes) as answered,
    ):
        for node in flipping:  # it is killed during this write
            replicas.say(node, health=2)
        await leader.evaluator.stop(kill=True)
        async with asyncio.timeout(PATIENCE):
            successor = await replicas.leader(survivors)
            for node in nodes:
                await world.labelled(node, **{policy: "violating"})
        for node in flipping:
            replicas.say(node, health=0)
        for node in flipping:
            await world.labelled(node)
        assert all(count > 0 for count in answered.values())

    assert [await one.leads() for one in survivors].count(True) == 1
    assert await successor.leads()
    for node in sick:
        assert record.values[node] == ["violating"], "a correct label was removed"
    for node in flipping:
        assert record.values[node] in ([None, "violating", None], ["violating", None]), (
            "the label flapped"
        )


async def test_stopped_leader_hands_over_at_once(world, replicas):
    """The lease lasts an hour: another replica can only acquire a released one."""
    node = await world.add_node("n")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    await replicas.start(2, *LONG)
    replicas.say(node, health=2)
    await replicas.ready()
    leader = await replicas.leader()
    (other,) = [one for one in replicas.all if one is not leader]
    await world.labelled(node, **{policy: "violating"})
    async with Record.of(world.client, policy) as record:
        await leader.evaluator.stop()
        assert await replicas.leader([other]) is other
        other.fleet.say(node, health=0)
        await world.labelled(node)
    assert record.values[node] in (["violating", None], ["violating"])


async def test_rollout_under_load_loses_no_request(world, replicas):
    """Each replica in turn gets SIGTERM, and leaves the clients' list of endpoints a second after its readiness failed."""
    node = await world.add_node("n")
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    flags = ("--leaderElect=true", f"--leaseNamespace={world.namespace}", "--shutdownDelay=3s")
    await replicas.start(2, "--shutdownDelay=3s")
    replicas.say(node, health=0)
    await replicas.ready()
    endpoints = [one.evaluator for one in replicas.all]
    answered = dict.fromkeys(endpoints, 0)
    pod = asking(world, policy)

    async def ask():
        """A client with connections of its own, which takes its turns among the endpoints."""
        for turn in itertools.count():
            one = endpoints[turn % len(endpoints)]
            reply = await one.filter(pod, [node])
            assert reply["NodeNames"] == [node], reply
            answered[one] += 1

    async def more(one, count):
        wanted = answered[one] + count
        await world.eventually(lambda: answered[one] >= wanted)

    async def replace(one):
        os.kill(one.pid, signal.SIGTERM)

        async def unready():
            return (await one.evaluator.get("/readyz"))[0] == 503

        await world.eventually(unready)
        await more(one.evaluator, 5)  # the list still has it
        await asyncio.sleep(LAG)
        endpoints.remove(one.evaluator)
        await world.eventually(lambda: one.pid is None)
        await one.evaluator.start(*flags)
        await one.evaluator.ready()
        endpoints.append(one.evaluator)
        await more(one.evaluator, 5)

    async with asyncio.TaskGroup() as clients:
        asked = [clients.create_task(ask()) for _ in range(4)]
        for one in replicas.all:
            await replace(one)
        for task in asked:
            task.cancel()


async def test_suspended_leader_writes_nothing_after_it_resumes(world, replicas):
    """Its earlier decisions are out of date: another replica has led since."""
    node, witness = await world.add_node("n"), await world.add_node("witness")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    await replicas.start(2, *SHORT)
    replicas.say(node, health=2)
    replicas.say(witness, health=0)
    await replicas.ready()
    leader = await replicas.leader()
    (other,) = [one for one in replicas.all if one is not leader]
    await world.labelled(node, **{policy: "violating"})
    written = await leader.written()
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        assert await replicas.leader([other]) is other
        other.fleet.say(node, health=0)  # the stopped one has not received it
        await world.labelled(node)
        leader.fleet.say(witness, health=2)  # once resumed, it would label this node
        async with Record.of(world.client, policy) as record:
            os.kill(leader.pid, signal.SIGCONT)

            async def heard():
                _, text = await leader.evaluator.get(f"/explain/{world.namespace}/{policy}")
                reading = json.loads(text)["nodes"][witness]["readings"]["health"] if text else {}
                return reading.get("value") == 2

            await world.eventually(heard)
            other.fleet.say(witness, health=2)
            await world.labelled(witness, **{policy: "violating"})
            assert await leader.written() == written
            assert record.values[node] == [None]
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    assert await other.leads()


async def test_new_leader_keeps_taints_and_conditions_and_takes_them_off(world, replicas):
    """The nodes tainted first stay tainted, transitions keep their time, and only the leader writes."""
    nodes = [await world.add_node(name) for name in "abc"]
    policy = await world.add_policy(
        "demo",
        dontschedule=["health Equals 2"],
        annotations={
            "plimsoll.io/actions": "taint,condition",
            "plimsoll.io/taint-effect": "NoSchedule",
            "plimsoll.io/max-nodes": "1",
        },
    )
    key = f"plimsoll.io/{world.namespace}.{policy}"

    async def state():
        found = [await world.client.get(NODES, node) for node in nodes]
        tainted = [any(t["key"] == key for t in one["spec"].get("taints", [])) for one in found]
        ours = [
            next((c for c in one["status"]["conditions"] if "plimsoll" in c["type"]), None)
            for one in found
        ]
        return tainted, ours

    async def becomes(tainted, statuses):
        async def agrees():
            found, conditions = await state()
            return found == tainted and [c and c["status"] for c in conditions] == statuses

        try:
            await world.eventually(agrees)
        except TimeoutError:
            raise AssertionError(await state()) from None

    await replicas.start(2, *SHORT, "--taints", "--conditions", "--maxActedNodes=100%")
    for node, health in zip(nodes, (0, 2, 0), strict=True):
        replicas.say(node, health=health)
    await replicas.ready()
    first = await replicas.leader()
    await becomes([False, True, False], [None, "True", None])
    for node in (nodes[0], nodes[2]):
        replicas.say(node, health=2)
    await becomes([False, True, False], ["True", "True", "True"])
    before = await state()
    os.kill(first.pid, signal.SIGKILL)
    (second,) = [one for one in replicas.all if one is not first]
    await replicas.leader([second])
    replicas.say(nodes[1], health=0)

    # The longest in violation comes next: both others began at about the same time.
    async def moved():
        tainted, _ = await state()
        return tainted in ([True, False, False], [False, False, True])

    await world.eventually(moved)
    _, after = await state()
    assert [after[0], after[2]] == [before[1][0], before[1][2]]
    writes = 'plimsoll_taint_writes_total{result="ok"}'
    assert await second.evaluator.metric(writes) == 2
