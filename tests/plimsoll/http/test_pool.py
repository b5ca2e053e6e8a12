"""Which connection is closed at the limit: of the peer with the most, the one that has waited longest."""

import asyncio

import pytest

from plimsoll.http.pool import ConnectionPool, ConnectionState


@pytest.fixture
async def crowds():
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
def crowd(crowds):
    return crowds(3)


async def ended(*tasks):
    """Which of these connections were ended."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return [task.cancelled() for task in tasks]


async def test_no_connection_is_closed_up_to_the_limit(crowd):
    first = crowd.admit_one()
    crowd.admit_one()
    assert crowd.has_room()
    assert await ended(first) == [False]


async def test_oldest_unauthenticated_connection_is_closed_first(crowd):
    client, one, other = (crowd.admit_one() for _ in range(3))
    crowd.set_state(client, ConnectionState.ANSWERING)
    crowd.set_state(client, ConnectionState.IDLE)
    crowd.set_state(one, ConnectionState.RECEIVING)  # has sent something since the other arrived
    assert crowd.has_room()
    assert await ended(client, one, other) == [False, False, True]


async def test_client_idle_longest_is_closed_if_all_are_authenticated(crowd):
    clients = [crowd.admit_one() for _ in range(3)]
    for client in clients:
        crowd.set_state(client, ConnectionState.ANSWERING)
        crowd.set_state(client, ConnectionState.IDLE)
    crowd.set_state(clients[0], ConnectionState.IDLE)
    assert crowd.has_room()
    assert await ended(*clients) == [False, True, False]


async def test_connection_with_a_certificate_is_authenticated(crowd):
    known, one, other = (crowd.admit_one() for _ in range(3))
    crowd.mark_verified(known)
    assert crowd.has_room()
    assert await ended(known, one, other) == [False, True, False]


async def test_connection_being_answered_is_never_closed(crowd):
    tasks = [crowd.admit_one() for _ in range(3)]
    for task in tasks:
        crowd.set_state(task, ConnectionState.ANSWERING)
    assert not crowd.has_room()
    assert await ended(*tasks) == [False, False, False]


async def test_unread_response_is_closed_before_a_new_connection_is_rejected(crowd):
    silent, deaf, answered = (crowd.admit_one() for _ in range(3))
    for task in (silent, deaf, answered):
        crowd.set_state(task, ConnectionState.ANSWERING)
    crowd.set_state(deaf, ConnectionState.SENDING)
    crowd.set_state(silent, ConnectionState.IDLE)
    assert crowd.has_room()
    assert await ended(silent, deaf, answered) == [True, False, False]
    crowd.admit_one()
    crowd.set_state(next(iter(crowd.tasks - {deaf, answered})), ConnectionState.ANSWERING)
    assert crowd.has_room()
    assert await ended(deaf, answered) == [True, False]


async def test_longest_unread_of_too_many_responses_is_closed(crowd):
    deaf = [crowd.admit_one() for _ in range(3)]
    for task in deaf:
        crowd.set_state(task, ConnectionState.ANSWERING)
    for task in (deaf[1], deaf[0]):
        crowd.set_state(task, ConnectionState.SENDING)
    assert await ended(*deaf) == [False, False, False]
    crowd.set_state(deaf[2], ConnectionState.SENDING)
    assert await ended(*deaf) == [False, True, False]


async def test_rejection_authenticates_no_connection(crowd):
    refused, stranger, client = (crowd.admit_one() for _ in range(3))
    crowd.set_state(client, ConnectionState.ANSWERING)
    crowd.set_state(client, ConnectionState.IDLE)
    crowd.set_state(refused, ConnectionState.SENDING)
    for expected in ([False, True, False], [True, True, False]):
        assert crowd.has_room()
        assert await ended(refused, stranger, client) == expected
        crowd.admit_one()


async def test_open_requests_may_finish_at_shutdown(crowd):
    idle, asking, answered = (crowd.admit_one() for _ in range(3))
    crowd.set_state(asking, ConnectionState.RECEIVING)
    crowd.set_state(answered, ConnectionState.ANSWERING)
    crowd.end_idle()
    assert await ended(idle, asking, answered) == [True, False, False]
    assert crowd.tasks == {asking, answered}


async def test_busy_is_true_while_a_request_is_open(crowd):
    one, other = crowd.admit_one(), crowd.admit_one()
    assert not crowd.busy
    for task, state in (
        (one, ConnectionState.RECEIVING),
        (other, ConnectionState.ANSWERING),
        (one, ConnectionState.IDLE),
    ):
        crowd.set_state(task, state)
        assert crowd.busy
    crowd.set_state(other, ConnectionState.SENDING)
    assert crowd.busy
    other.cancel()
    await ended(other)
    assert not crowd.busy


async def test_idle_clients_leave_a_quarter_of_the_connections_to_new_ones(crowds):
    crowd = crowds(8)
    idle = [crowd.admit_one(asked=True) for _ in range(8)]
    newcomers = []
    for number in range(3):
        assert crowd.has_room()
        assert sum(await ended(*idle)) == number + 1
        assert not any(await ended(*newcomers))
        newcomers.append(crowd.admit_one())


async def test_flood_of_new_connections_closes_no_client(crowds):
    crowd = crowds(8)
    idle = [crowd.admit_one(asked=True) for _ in range(5)]
    newcomers = []
    for _ in range(20):
        assert crowd.has_room()
        newcomers.append(crowd.admit_one())
        await ended()
    assert not any(await ended(*idle))
    assert await ended(*newcomers) == [True] * 17 + [False] * 3


@pytest.mark.parametrize("asked", [True, False], ids=["idle", "newcomers"])
async def test_peer_with_the_most_connections_loses_one(crowds, asked):
    crowd = crowds(8)
    of_one = [crowd.admit_one("one", asked=asked) for _ in range(2)]
    of_many = [crowd.admit_one("many", asked=asked) for _ in range(6)]
    for count in range(1, 4):
        assert crowd.has_room()
        crowd.admit_one("another")
        assert not any(await ended(*of_one))
        assert sum(await ended(*of_many)) == count


async def test_client_with_a_certificate_is_closed_last(crowds):
    crowd = crowds(4)
    certified = [crowd.admit_one() for _ in range(2)]
    for task in certified:
        crowd.mark_verified(task)
    other = [crowd.admit_one("other", asked=True), crowd.admit_one("other")]
    for _ in range(6):
        assert crowd.has_room()
        crowd.admit_one("other")
        await ended()
    assert not any(await ended(*certified))
    assert all(await ended(*other))


async def test_peer_without_open_connections_is_forgotten(crowds):
    crowd = crowds(4)
    for task in [crowd.admit_one("many") for _ in range(3)]:
        task.cancel()
        await ended()
    many = crowd.admit_one("many")
    one = [crowd.admit_one("one") for _ in range(3)]
    assert crowd.has_room()
    assert await ended(many, *one) == [False, True, False, False]
