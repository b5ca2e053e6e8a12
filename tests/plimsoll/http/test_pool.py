"""Which connection is closed at the limit: of the peer with the most, the one that has waited longest."""

import asyncio

import pytest

from plimsoll.http.pool import ConnectionPool, ConnectionState


@pytest.fixture
async def make_pool():
    """Create a pool of at most this many connections, with a function to admit one that lasts until it is ended."""
    tasks = []

    def make(limit):
        found = ConnectionPool(limit, sending=2)

        def admit(peer="peer", *, asked=False):
            task = asyncio.create_task(asyncio.Event().wait())
            tasks.append(task)
            found.admit(task, peer=peer)
            if asked:
                found.set_state(task, ConnectionState.ANSWERING)
                found.set_state(task, ConnectionState.IDLE)
            return task

        found.admit_one = admit
        return found

    yield make
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def pool(make_pool):
    return make_pool(3)


async def ended(*tasks):
    """Which of these connections were ended."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return [task.cancelled() for task in tasks]


async def test_no_connection_is_closed_up_to_the_limit(pool):
    first = pool.admit_one()
    pool.admit_one()
    assert pool.has_capacity()
    assert await ended(first) == [False]


async def test_oldest_unauthenticated_connection_is_closed_first(pool):
    client, one, other = (pool.admit_one() for _ in range(3))
    pool.set_state(client, ConnectionState.ANSWERING)
    pool.set_state(client, ConnectionState.IDLE)
    pool.set_state(one, ConnectionState.RECEIVING)  # has sent something since the other arrived
    assert pool.has_capacity()
    assert await ended(client, one, other) == [False, False, True]


async def test_client_idle_longest_is_closed_if_all_are_authenticated(pool):
    clients = [pool.admit_one() for _ in range(3)]
    for client in clients:
        pool.set_state(client, ConnectionState.ANSWERING)
        pool.set_state(client, ConnectionState.IDLE)
    pool.set_state(clients[0], ConnectionState.IDLE)
    assert pool.has_capacity()
    assert await ended(*clients) == [False, True, False]


async def test_connection_with_a_certificate_is_authenticated(pool):
    known, one, other = (pool.admit_one() for _ in range(3))
    pool.mark_verified(known)
    assert pool.has_capacity()
    assert await ended(known, one, other) == [False, True, False]


async def test_connection_being_answered_is_never_closed(pool):
    tasks = [pool.admit_one() for _ in range(3)]
    for task in tasks:
        pool.set_state(task, ConnectionState.ANSWERING)
    assert not pool.has_capacity()
    assert await ended(*tasks) == [False, False, False]


async def test_unread_response_is_closed_before_a_new_connection_is_rejected(pool):
    silent, deaf, answered = (pool.admit_one() for _ in range(3))
    for task in (silent, deaf, answered):
        pool.set_state(task, ConnectionState.ANSWERING)
    pool.set_state(deaf, ConnectionState.SENDING)
    pool.set_state(silent, ConnectionState.IDLE)
    assert pool.has_capacity()
    assert await ended(silent, deaf, answered) == [True, False, False]
    pool.admit_one()
    pool.set_state(next(iter(pool.tasks - {deaf, answered})), ConnectionState.ANSWERING)
    assert pool.has_capacity()
    assert await ended(deaf, answered) == [True, False]


async def test_longest_unread_of_too_many_responses_is_closed(pool):
    deaf = [pool.admit_one() for _ in range(3)]
    for task in deaf:
        pool.set_state(task, ConnectionState.ANSWERING)
    for task in (deaf[1], deaf[0]):
        pool.set_state(task, ConnectionState.SENDING)
    assert await ended(*deaf) == [False, False, False]
    pool.set_state(deaf[2], ConnectionState.SENDING)
    assert await ended(*deaf) == [False, True, False]


async def test_rejection_authenticates_no_connection(pool):
    refused, stranger, client = (pool.admit_one() for _ in range(3))
    pool.set_state(client, ConnectionState.ANSWERING)
    pool.set_state(client, ConnectionState.IDLE)
    pool.set_state(refused, ConnectionState.SENDING)
    for expected in ([False, True, False], [True, True, False]):
        assert pool.has_capacity()
        assert await ended(refused, stranger, client) == expected
        pool.admit_one()


async def test_open_requests_may_finish_at_shutdown(pool):
    idle, asking, answered = (pool.admit_one() for _ in range(3))
    pool.set_state(asking, ConnectionState.RECEIVING)
    pool.set_state(answered, ConnectionState.ANSWERING)
    pool.end_idle()
    assert await ended(idle, asking, answered) == [True, False, False]
    assert pool.tasks == {asking, answered}


async def test_busy_is_true_while_a_request_is_open(pool):
    one, other = pool.admit_one(), pool.admit_one()
    assert not pool.busy
    for task, state in (
        (one, ConnectionState.RECEIVING),
        (other, ConnectionState.ANSWERING),
        (one, ConnectionState.IDLE),
    ):
        pool.set_state(task, state)
        assert pool.busy
    pool.set_state(other, ConnectionState.SENDING)
    assert pool.busy
    other.cancel()
    await ended(other)
    assert not pool.busy


async def test_idle_clients_leave_a_quarter_of_the_connections_to_new_ones(make_pool):
    pool = make_pool(8)
    idle = [pool.admit_one(asked=True) for _ in range(8)]
    newcomers = []
    for number in range(3):
        assert pool.has_capacity()
        assert sum(await ended(*idle)) == number + 1
        assert not any(await ended(*newcomers))
        newcomers.append(pool.admit_one())


async def test_flood_of_new_connections_closes_no_client(make_pool):
    pool = make_pool(8)
    idle = [pool.admit_one(asked=True) for _ in range(5)]
    newcomers = []
    for _ in range(20):
        assert pool.has_capacity()
        newcomers.append(pool.admit_one())
        await ended()
    assert not any(await ended(*idle))
    assert await ended(*newcomers) == [True] * 17 + [False] * 3


@pytest.mark.parametrize("asked", [True, False], ids=["idle", "new connections"])
async def test_peer_with_the_most_connections_loses_one(make_pool, asked):
    pool = make_pool(8)
    of_one = [pool.admit_one("one", asked=asked) for _ in range(2)]
    of_many = [pool.admit_one("many", asked=asked) for _ in range(6)]
    for count in range(1, 4):
        assert pool.has_capacity()
        pool.admit_one("another")
        assert not any(await ended(*of_one))
        assert sum(await ended(*of_many)) == count


async def test_client_with_a_certificate_is_closed_last(make_pool):
    pool = make_pool(4)
    certified = [pool.admit_one() for _ in range(2)]
    for task in certified:
        pool.mark_verified(task)
    other = [pool.admit_one("other", asked=True), pool.admit_one("other")]
    for _ in range(6):
        assert pool.has_capacity()
        pool.admit_one("other")
        await ended()
    assert not any(await ended(*certified))
    assert all(await ended(*other))


async def test_peer_without_open_connections_is_forgotten(make_pool):
    pool = make_pool(4)
    for task in [pool.admit_one("many") for _ in range(3)]:
        task.cancel()
        await ended()
    many = pool.admit_one("many")
    one = [pool.admit_one("one") for _ in range(3)]
    assert pool.has_capacity()
    assert await ended(many, *one) == [False, True, False, False]
