"""The time of a password check tells nothing about which users exist."""

import base64

import bcrypt
import pytest

from agent.web.guard import BasicAuth

COSTS = {"cheap": 4, "usual": 6, "dear": 8}


def header(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def users():
    return {
        name: bcrypt.hashpw(b"secret", bcrypt.gensalt(cost)).decode()
        for name, cost in COSTS.items()
    }


@pytest.fixture
def rounds(monkeypatch):
    """The rounds of bcrypt that are done, call by call; the calls themselves are bcrypt's."""
    found = []

    def counted(function):
        def call(password, salt_or_hash):
            found.append(2 ** int(salt_or_hash.split(b"$")[2]))
            return function(password, salt_or_hash)

        return call

    for name in ("checkpw", "hashpw"):
        monkeypatch.setattr(bcrypt, name, counted(getattr(bcrypt, name)))
    return found


@pytest.mark.parametrize("user", [*COSTS, "unknown", "", "\u00fc"])
@pytest.mark.parametrize("password", ["secret", "wrong", "x" * 100])
async def test_every_check_does_the_same_work(users, rounds, user, password):
    right = await BasicAuth().fit(users, header(user, password))
    assert right == (user in users and password == "secret")
    assert sum(rounds) == 2 ** max(COSTS.values())


async def test_results_are_cached_for_unknown_users_too(users, rounds):
    auth = BasicAuth()
    for user in ("cheap", "unknown"):
        for _ in range(2):
            assert not await auth.fit(users, header(user, "wrong"))
    assert sum(rounds) == 2 * 2 ** max(COSTS.values())
