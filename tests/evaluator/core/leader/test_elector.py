"""Leader election on the sandbox's API server: one leads, and the next takes over exactly when the lease expires."""

import asyncio

import pytest

from evaluator.core.leader import elector as leading
from evaluator.core.leader.elector import Leader
from evaluator.core.leader.lease import LeaseTimings
from evaluator.core.leader.write_fence import WriteFence
from tests.clock import Clock

TERMS = LeaseTimings(duration=12.0, renew_deadline=8.0, retry=2.0)
PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def replica(connect, clock):
    """A participant by name, at a URL; its rounds are run by hand."""

    async def make(name, url, **more):
        fence = WriteFence(clock=clock)
        kube = await connect(url)
        made = Leader(
            kube, fence, TERMS, namespace="default", name="l", me=name, clock=clock, **more
        )
        return made, fence

    return make


async def test_first_replica_leads_and_others_wait(api, replica):
    (one, ones), (two, twos) = await replica("one", api.url), await replica("two", api.url)
    await one.try_acquire_or_renew()
    await two.try_acquire_or_renew()
    assert (ones.is_leader(), twos.is_leader()) == (True, False)
    found = await api.get(f"{PATH}/l")
    assert found["spec"]["holderIdentity"] == "one"
    assert found["spec"]["leaseDurationSeconds"] == 12


async def test_one_of_two_simultaneous_replicas_leads(api, replica, log_lines):
    lines = log_lines("logfmt")
    made = [await replica(f"r{number}", api.url) for number in range(5)]
    await asyncio.gather(*(one.try_acquire_or_renew() for one, _ in made))
    assert sum(fence.is_leader() for _, fence in made) == 1
    assert not [line for line in lines() if "level=warning" in line]


async def test_dead_leader_is_replaced_when_its_lease_expires_and_not_before(api, replica, clock):
    (one, ones), (two, twos) = await replica("one", api.url), await replica("two", api.url)
    await one.try_acquire_or_renew()
    begin = clock.now
    while not twos.is_leader():
        assert clock.now - begin <= TERMS.duration + TERMS.retry
        clock.now += await two.try_acquire_or_renew()
    assert clock.now - begin >= TERMS.duration
    assert not ones.is_leader()
    assert (await api.get(f"{PATH}/l"))["spec"]["leaseTransitions"] == 1


async def test_renewing_leader_stays(api, replica, clock):
    (one, ones), (two, twos) = await replica("one", api.url), await replica("two", api.url)
    for _ in range(30):
        clock.now += min(await one.try_acquire_or_renew(), await two.try_acquire_or_renew())
        assert (ones.is_leader(), twos.is_leader()) == (True, False)


async def test_released_lease_is_acquired_at_once(api, replica):
    (one, ones), (two, twos) = await replica("one", api.url), await replica("two", api.url)
    await one.try_acquire_or_renew()
    await two.try_acquire_or_renew()
    await one.release()
    assert not ones.is_leader()
    assert not one.holds
    await two.try_acquire_or_renew()
    assert twos.is_leader()


async def test_lease_that_others_annotated_meanwhile_is_released(api, replica):
    one, _ = await replica("one", api.url)
    await one.try_acquire_or_renew()
    await api.merge(f"{PATH}/l", {"metadata": {"annotations": {"note": "kept"}}})
    await one.release()
    found = await api.get(f"{PATH}/l")
    assert found["spec"]["holderIdentity"] == ""
    assert found["metadata"]["annotations"] == {"note": "kept"}


async def test_lease_that_another_replica_took_meanwhile_is_not_released(api, replica):
    one, _ = await replica("one", api.url)
    await one.try_acquire_or_renew()
    await api.merge(f"{PATH}/l", {"spec": {"holderIdentity": "usurper"}})
    await one.release()
    assert (await api.get(f"{PATH}/l"))["spec"]["holderIdentity"] == "usurper"


async def test_unfit_leader_gives_the_lease_up_and_leads_again_once_it_is_fit(api, replica):
    why = []
    (one, ones), (two, twos) = (
        await replica("one", api.url, unfit=lambda: why),
        await replica("two", api.url),
    )
    await one.try_acquire_or_renew()
    why.append("evictions: everything fails")
    await one.try_acquire_or_renew()
    assert (ones.is_leader(), one.holds) == (False, False)
    await two.try_acquire_or_renew()
    assert twos.is_leader()
    await two.release()
    await one.try_acquire_or_renew()
    assert not ones.is_leader()
    why.clear()
    await one.try_acquire_or_renew()
    assert ones.is_leader()


async def test_releasing_replica_does_not_acquire_it_again(api, replica, background):
    one, ones = await replica("one", api.url)
    running = background(one.run())
    while not ones.is_leader():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    await one.release()
    await asyncio.sleep(0.01)
    assert not running.done()
    assert (await api.get(f"{PATH}/l"))["spec"]["holderIdentity"] == ""


async def test_leader_that_finds_another_holder_stops_at_once(api, replica):
    one, ones = await replica("one", api.url)
    await one.try_acquire_or_renew()
    await api.merge(f"{PATH}/l", {"spec": {"holderIdentity": "usurper"}})
    await one.try_acquire_or_renew()
    assert not ones.is_leader()


async def test_lease_deleted_under_a_leader_is_created_again(api, replica):
    one, ones = await replica("one", api.url)
    await one.try_acquire_or_renew()
    await api.delete(f"{PATH}/l")
    await one.try_acquire_or_renew()
    assert ones.is_leader()
    assert (await api.get(f"{PATH}/l"))["spec"]["holderIdentity"] == "one"


async def test_foreign_fields_of_the_lease_stay(api, replica):
    one, _ = await replica("one", api.url)
    await one.try_acquire_or_renew()
    await api.merge(f"{PATH}/l", {"metadata": {"annotations": {"who": "me"}}})
    await one.try_acquire_or_renew()
    assert (await api.get(f"{PATH}/l"))["metadata"]["annotations"] == {"who": "me"}


@pytest.mark.parametrize("failure", ["refuses", "hangs", "breaks"])
async def test_leader_that_cannot_renew_stops_before_another_may_begin(
    stub_server, answer, replica, clock, failure
):
    """Its renewals fail; its leadership ends 8 s after the last success, not 12."""

    async def echo(request):
        body = {**await request.json(), "metadata": {"name": "l", "resourceVersion": "1"}}
        return await answer.says(201, body)(request)

    stub_server.then(answer.refuses(404), echo)
    one, ones = await replica("one", stub_server.url)
    await one.try_acquire_or_renew()
    assert ones.is_leader()
    stub_server.otherwise(
        {"refuses": answer.refuses(500), "hangs": answer.hangs, "breaks": answer.breaks}[failure]
    )
    clock.now += 7.9
    assert ones.is_leader()
    if failure != "hangs":  # this one is slow, and the fence does not wait for it
        assert await one.try_acquire_or_renew() <= 0.1 + 1e-6
    clock.now += 0.1
    assert not ones.is_leader()
    if failure != "hangs":
        await one.try_acquire_or_renew()
        assert one.holds is False


async def test_forbidden_lease_is_logged_once_and_no_replica_leads(
    stub_server, answer, replica, log_lines
):
    lines = log_lines("logfmt")
    stub_server.otherwise(answer.refuses(403, "Forbidden", "leases is forbidden"))
    one, ones = await replica("one", stub_server.url)
    for _ in range(5):
        assert await one.try_acquire_or_renew() == pytest.approx(TERMS.retry)
    assert not ones.is_leader()
    told = [line for line in lines() if "leases is forbidden" in line]
    assert len(told) == 1
    assert "level=warning" in told[0]


def test_identities_are_unique():
    assert len({leading.identity() for _ in range(100)}) == 100
