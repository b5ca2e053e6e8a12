"""Who goes when there is no room: strangers before clients, and of either who has kept us waiting longest."""

import asyncio

import pytest

from plimsoll.http.crowd import Crowd, Doing


@pytest.fixture
async def crowd():
    """A crowd of at most three, and a way to admit a connection that lasts until it is ended."""
    found, tasks = Crowd(3, sending=2), []

    def admit():
        task = asyncio.create_task(asyncio.Event().wait())
        tasks.append(task)
        found.admit(task)
        return task

    found.admit_one = admit
    yield found
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def ended(*tasks):
    """Which of these connections were ended."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return [task.cancelled() for task in tasks]


async def test_up_to_the_limit_everybody_stays(crowd):
    first = crowd.admit_one()
    crowd.admit_one()
    assert crowd.has_room()
    assert await ended(first) == [False]


async def test_the_stranger_who_has_waited_longest_goes_first(crowd):
    client, one, other = (crowd.admit_one() for _ in range(3))
    crowd.note(client, Doing.ANSWERING)
    crowd.note(client, Doing.NOTHING)
    crowd.note(one, Doing.RECEIVING)  # has said something since the other came
    assert crowd.has_room()
    assert await ended(client, one, other) == [False, False, True]


async def test_without_strangers_the_client_who_has_been_silent_longest_goes(crowd):
    clients = [crowd.admit_one() for _ in range(3)]
    for client in clients:
        crowd.note(client, Doing.ANSWERING)
        crowd.note(client, Doing.NOTHING)
    crowd.note(clients[0], Doing.NOTHING)
    assert crowd.has_room()
    assert await ended(*clients) == [False, True, False]


async def test_whoever_has_shown_a_certificate_is_no_stranger(crowd):
    known, one, other = (crowd.admit_one() for _ in range(3))
    crowd.know(known)
    assert crowd.has_room()
    assert await ended(known, one, other) == [False, True, False]


async def test_who_is_being_answered_never_goes(crowd):
    tasks = [crowd.admit_one() for _ in range(3)]
    for task in tasks:
        crowd.note(task, Doing.ANSWERING)
    assert not crowd.has_room()
    assert await ended(*tasks) == [False, False, False]


async def test_who_does_not_take_an_answer_goes_before_a_newcomer_is_refused(crowd):
    silent, deaf, answered = (crowd.admit_one() for _ in range(3))
    for task in (silent, deaf, answered):
        crowd.note(task, Doing.ANSWERING)
    crowd.note(deaf, Doing.SENDING)
    crowd.note(silent, Doing.NOTHING)
    assert crowd.has_room()
    assert await ended(silent, deaf, answered) == [True, False, False]
    crowd.admit_one()
    crowd.note(next(iter(crowd.tasks - {deaf, answered})), Doing.ANSWERING)
    assert crowd.has_room()
    assert await ended(deaf, answered) == [True, False]


async def test_of_too_many_who_do_not_take_an_answer_the_longest_is_given_up(crowd):
    deaf = [crowd.admit_one() for _ in range(3)]
    for task in deaf:
        crowd.note(task, Doing.ANSWERING)
    for task in (deaf[1], deaf[0]):
        crowd.note(task, Doing.SENDING)
    assert await ended(*deaf) == [False, False, False]
    crowd.note(deaf[2], Doing.SENDING)
    assert await ended(*deaf) == [False, True, False]


async def test_a_refusal_makes_nobody_known(crowd):
    refused, stranger, client = (crowd.admit_one() for _ in range(3))
    crowd.note(client, Doing.ANSWERING)
    crowd.note(client, Doing.NOTHING)
    crowd.note(refused, Doing.SENDING)
    for expected in ([False, True, False], [True, True, False]):
        assert crowd.has_room()
        assert await ended(refused, stranger, client) == expected
        crowd.admit_one()


async def test_at_the_end_those_who_are_asking_or_answered_may_finish(crowd):
    idle, asking, answered = (crowd.admit_one() for _ in range(3))
    crowd.note(asking, Doing.RECEIVING)
    crowd.note(answered, Doing.ANSWERING)
    crowd.end_idle()
    assert await ended(idle, asking, answered) == [True, False, False]
    assert crowd.tasks == {asking, answered}


async def test_whether_somebody_is_asking_or_answered(crowd):
    one, other = crowd.admit_one(), crowd.admit_one()
    assert not crowd.asked
    for task, doing in ((one, Doing.RECEIVING), (other, Doing.ANSWERING), (one, Doing.NOTHING)):
        crowd.note(task, doing)
        assert crowd.asked
    crowd.note(other, Doing.SENDING)
    assert crowd.asked
    other.cancel()
    await ended(other)
    assert not crowd.asked
