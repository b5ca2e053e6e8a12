"""The evictions of the last hour, as a leader stores them and the next one reads them, whatever the clocks of their machines say."""

import json

import pytest

from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import PolicyKey
from evaluator.features.evictions import journal
from evaluator.features.evictions.history import HOUR, EvictionHistory
from evaluator.features.evictions.journal import JournalError
from evaluator.features.evictions.store import EvictionStore
from plimsoll import rfc3339
from tests.clock import Clock

KEY, OTHER = PolicyKey("shop", "calm"), PolicyKey("bank", "calm")


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
        assert await self.store.ready()
        self.history.restore({policy: [self.clock()]})
        self.store.changed()

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
    assert second.ages() == [130.0]
    assert second.ages(OTHER) == [100.0]


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
    assert third.ages() == [960.0 + 10.0, 10.0]  # stored by the minute, and never as older


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
    data = journal.encode({KEY: ages}, "writer", exact=60.0)
    found = journal.decode({"data": data})[KEY]
    assert found == [1.0, 59.0, 60.0, 60.0, 3540.0]


def test_evictions_of_an_hour_of_many_policies_fit_into_an_object():
    many = {PolicyKey("ns", f"policy-{n}"): [s * 10.0 for s in range(360)] for n in range(900)}
    data = journal.encode(many, "writer", exact=60.0)
    assert len(json.dumps(data)) < 1_000_000
    with pytest.raises(JournalError):
        journal.encode({PolicyKey("n" * 63, f"{n:0253}"): [1.0] for n in range(3000)}, "", exact=1)
