"""The actions of all replicas: each shows the same, also after restarts, changes of the leader and failed writes."""

import asyncio
import json
from collections import Counter

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import NotLeaderError
from evaluator.core.model.names import PolicyKey
from evaluator.core.signals import Acted, ActionKind
from evaluator.features.history.archive import NAME
from evaluator.features.history.history import History, Query
from evaluator.features.history.recorder import HistoryMetrics
from evaluator.features.history.shared import PERIOD, SharedActions, _parse
from tests.eventually import eventually

KINDS = (*ActionKind, "evicted", "stopped", "resumed")
DAY = 86_400.0
KEY = PolicyKey("ns", "demo")
EVICTED = Acted("evicted", KEY, "node-a", "ns/web", "m GreaterThan 5")


def stopped(kind="stopped", text="all policies are frozen (alice)"):
    return Acted(kind, None, text=text, topic=text)


def leads(name):
    return Acted(ActionKind.LEADER, text=f"{name} leads", topic=ActionKind.LEADER)


class Cluster:
    """The Secret, the time, and the replicas that watch it."""

    def __init__(self):
        self.now = 1_700_000_000.0
        self.data, self.version = {}, 1
        self.replicas = []
        self.leader = None
        self.refusal = None
        self.lost = False
        """Whether the answer to the next write is lost."""
        self.sizes = Counter()

    @property
    def raw(self):
        meta = {"name": NAME, "resourceVersion": str(self.version)}
        return json.dumps({"metadata": meta, "data": self.data}).encode()

    def start(self, *, offset=0.0, read=True):
        """A new replica, whose clock is ahead by `offset` seconds."""
        replica = Replica(self, offset)
        self.replicas.append(replica)
        if read:
            replica.shared.put(_parse(self.raw))
        return replica

    def write(self, data, version):
        if self.refusal:
            raise self.refusal
        if version != str(self.version):
            raise KubeError(409, "PATCH: the object has been modified")
        after = {**self.data, **data}
        self.data = {key: value for key, value in after.items() if value is not None}
        self.version += 1
        if self.lost:
            self.lost = False
            raise KubeError(0, "PATCH: timeout")
        return self.raw

    async def settle(self, seconds=PERIOD):
        """Let time pass: each replica looks at the object, and at what the others wrote."""
        for _ in range(2):
            self.now += seconds / 2
            for replica in self.replicas:
                await replica.shared.look()
            for replica in self.replicas:
                replica.shared.put(_parse(self.raw))
                await replica.shared.look()


class Replica:
    """One replica: its history, and what it wrote."""

    def __init__(self, cluster, offset):
        self.cluster = cluster
        self.writes = 0
        self.history = History(32 << 20, DAY, KINDS)
        self.metrics = HistoryMetrics(CollectorRegistry())
        self.shared = SharedActions(
            self.history,
            self,
            "plimsoll",
            self.metrics,
            is_leader=lambda: cluster.leader is self,
            age=DAY,
            started=cluster.now + offset,
            read_anew=lambda: self.shared.put(_parse(cluster.raw)),
            clock=lambda: cluster.now,
            wall=lambda: cluster.now + offset,
        )

    async def patch_secret(self, namespace, name, data, resource_version):
        assert (namespace, name) == ("plimsoll", NAME)
        if self.cluster.leader is not self:
            raise NotLeaderError
        self.writes += 1
        return self.cluster.write(data, resource_version)

    def shown(self, **query):
        """The records, the oldest first, without what only this replica knows."""
        found = [one.fields for one in self.history.newest_first(Query(**query)) if one is not None]
        return [{k: v for k, v in one.items() if k != "number"} for one in reversed(found)]

    @property
    def problem(self):
        return self.shared.shown().problem


@pytest.fixture
def cluster():
    made = Cluster()
    made.leader = made.start()
    made.start()
    return made


def storm(cluster, count):
    for number in range(count):
        text = f"taints: plimsoll.io/ns.demo=violating:NoSchedule ({number})"
        cluster.leader.shared.acted(Acted(ActionKind.WRITTEN, node=f"node-{number:04d}", text=text))


async def test_all_replicas_show_the_same_after_a_storm_and_a_restart(cluster):
    """5,000 nodes are tainted at once: not even the newest action is lost."""
    leader, other = cluster.replicas
    leader.shared.acted(EVICTED)
    storm(cluster, 5_000)
    await cluster.settle()
    restarted = cluster.start()
    await cluster.settle()
    expected = leader.shown()
    assert len(expected) == 5_001
    assert expected[-1]["node"] == "node-4999"
    assert other.shown() == expected
    assert restarted.shown() == expected
    assert restarted.shared.shown() == other.shared.shown()
    assert other.problem is None


async def test_writes_are_rare(cluster):
    for _ in range(60):
        cluster.leader.shared.acted(EVICTED)
        cluster.now += 1.0
        await cluster.leader.shared.look()
    assert 6 <= cluster.leader.writes <= 7
    assert cluster.replicas[1].writes == 0


async def test_stop_writes_at_once_what_waits(cluster):
    await cluster.settle()
    cluster.leader.shared.acted(EVICTED)
    await cluster.leader.shared.look()
    cluster.leader.shared.acted(EVICTED)
    await cluster.leader.shared.leave()
    assert len(cluster.start().shown()) == 0
    await cluster.settle()
    assert len(cluster.replicas[-1].shown()) == 2


async def test_next_leader_goes_on_where_the_last_one_ended(cluster):
    """Their clocks differ by an hour: each action keeps the time of its replica, and the order is that of the writes."""
    first, second = cluster.replicas
    first.shared.acted(EVICTED)
    await cluster.settle()
    cluster.replicas.remove(first)
    late = cluster.leader = cluster.start(offset=-3600.0)
    await cluster.settle()
    late.shared.acted(EVICTED)
    await cluster.settle()
    early = cluster.leader = cluster.start(offset=3600.0)
    await cluster.settle()
    early.shared.acted(EVICTED)
    await cluster.settle()
    begin = second.shown()[0]["at"]
    assert [round(one["at"] - begin) for one in second.shown()] == [0, -3580, 3640]
    assert second.shown() == late.shown() == early.shown()


async def test_answer_that_was_lost_doubles_nothing(cluster):
    await cluster.settle()
    cluster.leader.shared.acted(EVICTED)
    cluster.lost = True
    await cluster.settle()
    cluster.leader.shared.acted(EVICTED)
    await cluster.settle()
    await cluster.settle()
    assert len(cluster.leader.shown()) == len(cluster.replicas[1].shown()) == 2
    assert len(cluster.start().shown()) == 0
    await cluster.settle()
    assert len(cluster.replicas[-1].shown()) == 2


async def test_write_after_another_replicas_reads_the_object_first(cluster):
    """The former leader does not know that it is none: the object has changed since it was read."""
    first, second = cluster.replicas
    await cluster.settle()
    cluster.leader = second
    second.shared.acted(EVICTED)
    cluster.now += PERIOD
    await second.shared.look()
    cluster.leader = first
    first.shared.acted(EVICTED)
    await first.shared.look()
    assert first.metrics.writes.labels("conflict")._value.get() == 1
    await cluster.settle()
    await cluster.settle()
    assert len(first.shown()) == len(second.shown()) == 2


@pytest.mark.parametrize(
    "refusal",
    [KubeError(403, "PATCH: 403 secrets is forbidden"), KubeError(0, "PATCH: no response")],
)
async def test_write_that_fails_is_said_and_made_up_for(cluster, refusal):
    leader, other = cluster.replicas
    cluster.refusal = refusal
    leader.shared.acted(EVICTED)
    await cluster.settle()
    assert leader.shown()  # the history of this replica goes on
    assert leader.problem == f"actions are not written: {refusal}"
    since = leader.shared.shown().problem_since
    cluster.refusal = None
    await cluster.settle()
    await cluster.settle()
    assert since is not None
    assert leader.problem is None
    assert other.shown() == leader.shown()


async def test_page_says_since_when_and_why_actions_are_not_known(cluster):
    replica = cluster.start(read=False)
    assert "not read yet" in replica.problem
    replica.shared.read_failed(KubeError(403, "GET: 403 secrets is forbidden"))
    assert replica.problem == "actions are not read: GET: 403 secrets is forbidden"
    replica.shared.acted(EVICTED)
    assert [one["kind"] for one in replica.shown()] == ["evicted"]
    list(replica.shared.replacing([]))
    await replica.shared.look()
    assert "does not exist: apply the manifests" in replica.problem
    replica.shared.put(_parse(b"{" + b" " * (4 << 20)))
    await replica.shared.look()
    assert "bytes" in replica.problem


async def test_actions_are_complete_since_the_first_leader(cluster):
    begin = cluster.leader.shared.shown().since
    await cluster.settle()
    cluster.now += 7_200
    restarted = cluster.start()
    await cluster.settle()
    assert restarted.shared.shown().since == begin
    assert restarted.shared.restores_before == pytest.approx(cluster.now - 7_200 - 2 * PERIOD)


async def test_what_all_replicas_notice_is_shown_once(cluster):
    """A stop is noticed by each replica, and again by each at its start."""
    for replica in cluster.replicas:
        replica.shared.acted(stopped())
    await cluster.settle()
    restarted = cluster.start()
    restarted.shared.acted(stopped())
    await cluster.settle()
    for replica in cluster.replicas:
        replica.shared.acted(stopped("resumed"))
    await cluster.settle()
    for replica in cluster.replicas:
        replica.shared.acted(stopped())
    await cluster.settle()
    expected = cluster.leader.shown()
    assert [one["kind"] for one in expected] == ["stopped", "resumed", "stopped"]
    assert all(replica.shown() == expected for replica in cluster.replicas)


async def test_stop_without_a_leader_is_recorded_by_the_next_one(cluster):
    first, second = cluster.replicas
    await cluster.settle()
    cluster.leader = None
    second.shared.acted(stopped())
    await cluster.settle(4.0)
    assert second.shown() == []
    cluster.leader = second
    second.shared.acted(leads("b"))
    first.shared.acted(leads("b"))
    await cluster.settle()
    assert [one["text"] for one in first.shown()] == [stopped().text, "b leads"]
    assert first.shown() == second.shown()


async def test_replica_that_cannot_read_records_what_it_notices_itself():
    cluster = Cluster()
    replica = cluster.start(read=False)
    replica.shared.acted(stopped())
    await replica.shared.look()
    assert replica.shown() == []
    cluster.now += 20.0
    await replica.shared.look()
    assert [one["kind"] for one in replica.shown()] == ["stopped"]


async def test_unknown_kinds_and_old_actions_are_not_shown(cluster):
    """Of another version, as during an upgrade."""
    cluster.leader.shared.acted(EVICTED)
    await cluster.settle()
    newer = cluster.start()
    newer.history = newer.shared._history = History(1 << 20, DAY, ("other",))
    await newer.shared.look()
    assert newer.shown() == []
    cluster.now += DAY + 1
    later = cluster.start()
    await later.shared.look()
    assert later.shown() == []


async def test_loop_goes_on_after_an_error(cluster):
    """One action that cannot be recorded costs itself."""
    other = cluster.replicas[1]
    known = other.history.add_action

    def add(action, at):
        if action.node == "node-0001":
            raise RuntimeError("broken")
        known(action, at)

    other.history.add_action = add
    storm(cluster, 3)
    await cluster.settle()
    assert [one["node"] for one in other.shown()] == ["node-0000", "node-0002"]


async def test_run_reads_as_soon_as_the_object_changes(cluster):
    cluster.leader.shared.acted(EVICTED)
    await cluster.settle()
    late = cluster.start()
    task = asyncio.create_task(late.shared.run())
    await eventually(late.shown)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert late.shown() == cluster.leader.shown()


async def test_action_that_cannot_be_encoded_or_recorded_costs_itself(cluster, monkeypatch):
    leader, other = cluster.replicas
    add = leader.history.add_action

    def recording(action, at):
        if action.text == "odd":
            raise ValueError(action.text)
        add(action, at)

    monkeypatch.setattr(leader.history, "add_action", recording)
    leader.shared.acted(Acted("stopped", KEY, text="odd", topic="stop"))
    leader.shared.acted(Acted("evicted", KEY, "node-\ud800", "ns/web", "m GreaterThan 5"))
    leader.shared.acted(EVICTED)
    await cluster.settle()
    assert [one["node"] for one in other.shown()] == ["node-\\ud800", "node-a"]
