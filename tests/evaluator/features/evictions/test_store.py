"""The evictions of the last hour, as a leader stores them and the next one reads them, whatever the clocks of their machines say."""

import json

import pytest

from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Owner, Pod, PodMeta, PodSpec
from evaluator.features.evictions import journal
from evaluator.features.evictions.history import HOUR, EvictionHistory, Left, Place
from evaluator.features.evictions.journal import Journal, JournalError
from evaluator.features.evictions.store import EvictionStore
from plimsoll import rfc3339
from tests.clock import Clock

KEY, OTHER = PolicyKey("shop", "calm"), PolicyKey("bank", "calm")


def make_pod(uid="u"):
    """A running pod of a ReplicaSet."""
    owner = Owner("ReplicaSet", "web", "r")
    return Pod(PodMeta("web", "shop", uid=uid, controller=owner), PodSpec(node_name="sick"))


class Server:
    """An API server with a ConfigMap and a clock of its own."""

    def __init__(self):
        self.now = 1_790_000_000.0
        self.stored = None
        self.error = None

    async def read_config_map(self, namespace, name):
        assert (namespace, name) == ("plimsoll", "plimsoll-evictions")
        if self.error:
            raise self.error
        return self.stored

    async def write_config_map(self, body):
        if self.error:
            raise self.error
        meta = body["metadata"]
        version = self.stored["metadata"]["resourceVersion"] if self.stored else ""
        if meta.get("resourceVersion", "") != version:
            raise KubeError(409, "conflict")
        times = [{"manager": "plimsoll", "time": rfc3339.seconds(self.now)}]
        fields = {"resourceVersion": f"{version}1", "managedFields": times}
        self.stored = {**body, "metadata": {**meta, **fields}}
        return self.stored


class Leader:
    """A leader whose monotonic clock begins at any value, as those of two machines differ."""

    def __init__(self, server, begin):
        self.clock = Clock()
        self.clock.now = begin
        self.history = EvictionHistory()
        self.store = EvictionStore(server, "plimsoll", self.history, exact=60.0, clock=self.clock)
        self.store.start_over()

    async def evict(self, policy=KEY):
        self.store.reserve({policy: 1})
        assert await self.store.ready()
        self.note(policy)
        self.store.reserve({})

    def note(self, policy=KEY):
        """Note an eviction that happened."""
        self.history.evicted(policy, make_pod(), (), self.clock())
        self.store.evicted(policy, self.clock())

    def ages(self, policy=KEY):
        """How long ago evictions were."""
        return [self.clock() - at for at in self.history.done(policy, -1e12)]


async def test_next_leader_knows_when_pods_were_evicted_by_the_clock_of_the_api_server():
    server = Server()
    first, second = Leader(server, 50.0), Leader(server, 9e6)
    await first.evict()
    first.clock.now += 30.0
    server.now += 30.0
    await first.evict(OTHER)
    assert await first.store.ready()
    server.now += 100.0
    assert await second.store.ready()
    # A second less: the API server's times are whole seconds.
    assert second.ages() == [129.0]
    assert second.ages(OTHER) == [99.0]


async def test_leader_that_leads_again_continues_from_what_the_other_stored():
    server = Server()
    first, second = Leader(server, 50.0), Leader(server, 9e6)
    await first.evict()
    assert await first.store.ready()
    server.now += 1000.0
    await second.evict()
    assert await second.store.ready()
    assert not await first.store.ready() or first.store.known
    third = Leader(server, 7.0)
    server.now += 10.0
    assert await third.store.ready()
    # Stored by the minute and by the API server's second, and never as older.
    assert third.ages() == [960.0 + 9.0, 9.0]


async def test_eviction_is_stored_before_the_next_one():
    server = Server()
    leader = Leader(server, 0.0)
    await leader.evict()
    server.error = KubeError(500, "etcd is slow")
    assert not await leader.store.ready()
    assert "one pod in --evictPeriod" in leader.store.trouble
    assert "etcd is slow" in leader.store.trouble
    server.error = None
    assert not await leader.store.ready(), "not asked again at once"
    leader.clock.now += 30.0
    assert await leader.store.ready()
    assert leader.store.trouble == ""


@pytest.mark.parametrize(
    "data",
    [{}, {"evictions.json": "no"}, {"evictions.json": '{"writer":"x","policies":{"a/b":[["x",1]]}}'}, {"evictions.json": '{"writer":"x","policies":{"a/b":[[1,9999999999]]}}'}],
)  # fmt: skip
async def test_unreadable_evictions_are_said_and_forgotten_after_an_hour(data):
    server = Server()
    server.stored = {"metadata": {"resourceVersion": "7"}, "data": data}
    leader = Leader(server, 0.0)
    assert not await leader.store.ready()
    assert "cannot be read" in leader.store.trouble
    leader.clock.now += HOUR
    assert await leader.store.ready()


async def test_times_without_managed_fields_count_from_now():
    server = Server()
    first, second = Leader(server, 0.0), Leader(server, 0.0)
    await first.evict()
    assert await first.store.ready()
    del server.stored["metadata"]["managedFields"]
    server.now += 500.0
    assert await second.store.ready()
    assert second.ages() == [0.0]


async def test_clock_of_the_api_server_that_goes_back_frees_nothing():
    server = Server()
    first, second = Leader(server, 0.0), Leader(server, 0.0)
    await first.evict()
    assert await first.store.ready()
    server.now -= 86_400.0
    assert await second.store.ready()
    assert second.ages() == [0.0]


def test_old_evictions_are_divided_by_the_minute_and_never_older_than_they_are():
    ages = [1.5, 59.9, 61.0, 119.0, 3599.0, 3700.0]
    data = journal.encode(Journal({KEY: ages}), exact=60.0)
    found = journal.decode({"data": data}).ages[KEY]
    assert found == [1.0, 59.0, 60.0, 60.0, 3540.0]


def test_evictions_of_an_hour_of_many_policies_fit_into_an_object():
    many = {PolicyKey("ns", f"policy-{n}"): [s * 10.0 for s in range(360)] for n in range(900)}
    data = journal.encode(Journal(many), exact=60.0)
    assert len(json.dumps(data)) < 1_000_000
    most = {PolicyKey("n" * 63, f"{n:0253}"): [1.0] for n in range(3000)}
    with pytest.raises(JournalError):
        journal.encode(Journal(most), exact=1)


async def test_eviction_of_a_leader_that_was_killed_meanwhile_counts_for_the_next_one():
    """It had reserved the eviction, and may have sent it."""
    server = Server()
    first, second = Leader(server, 50.0), Leader(server, 9e6)
    first.store.reserve({KEY: 2})
    assert await first.store.ready()
    server.now += 30.0
    assert await second.store.ready()
    assert second.ages() == [0.0, 0.0]


async def test_each_reservation_is_stored_however_short_ago_the_last_one_was():
    server = Server()
    leader = Leader(server, 50.0)
    await leader.evict()
    assert await leader.store.ready()
    leader.store.reserve({KEY: 1})
    assert not leader.store.covers
    assert await leader.store.ready()
    assert leader.store.covers
    leader.clock.now += 5.0
    assert not leader.store.covers, "it would count from when it was stored"


async def test_reservations_that_were_not_used_do_not_count():
    server = Server()
    first, second = Leader(server, 50.0), Leader(server, 9e6)
    first.store.reserve({KEY: 2, OTHER: 1})
    assert await first.store.ready()
    first.note()
    first.store.reserve({})
    assert await first.store.ready()
    assert await second.store.ready()
    assert (len(second.ages()), second.ages(OTHER)) == (1, [])


async def test_lost_answer_to_a_write_counts_no_eviction_twice():
    server = Server()
    leader = Leader(server, 50.0)
    await leader.evict()
    write = server.write_config_map

    async def lost(body):
        await write(body)
        raise KubeError(0, "connection reset")

    server.write_config_map = lost
    assert not await leader.store.ready()
    server.write_config_map = write
    leader.clock.now += 30.0
    assert await leader.store.ready()
    assert leader.ages() == [30.0]


async def test_leader_that_leads_again_counts_its_own_evictions_once():
    server = Server()
    first, second = Leader(server, 50.0), Leader(server, 9e6)
    await first.evict()
    assert await first.store.ready()
    assert await second.store.ready()
    first.store.start_over()
    assert await first.store.ready()
    assert len(first.ages()) == 1


async def test_next_leader_knows_how_often_pods_came_back_to_a_node():
    """The second successor waits 5 minutes from the eviction before it, also at a new leader."""
    server = Server()
    first, second = Leader(server, 50.0), Leader(server, 9e6)
    for uid in ("first", "second"):
        first.history.evicted(KEY, make_pod(uid), (), first.clock())
    assert await first.store.ready()
    server.now += 31.0
    assert await second.store.ready()
    successor = make_pod("third")
    waits = second.history.returns_at(KEY, successor) - second.clock()
    assert waits == 300.0 - 30.0
    assert second.history.returns_at(KEY, make_pod("first")) == 0.0, "it was there before"


async def test_what_came_back_is_left_out_if_the_object_would_be_too_large():
    left = {
        Place(KEY, f"node-{n}", "owner"): Left(frozenset(f"{m:036}" for m in range(100)), 1.0)
        for n in range(1000)
    }
    found = journal.decode({"data": journal.encode(Journal({KEY: [1.0]}, left), exact=60.0)})
    assert (found.ages[KEY], found.left) == ([1.0], {})
