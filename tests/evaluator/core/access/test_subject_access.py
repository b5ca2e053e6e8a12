"""The API server is asked rarely, and a silent one permits nothing."""

import asyncio

import pytest

from evaluator.core.access.guard import AccessReviewer
from evaluator.core.access.user import NonResourceAttributes, UnreviewedError, User
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.api_status import AccessReview
from tests.clock import Clock
from tests.patience import PATIENCE

JANE = User("jane")
PATH = NonResourceAttributes(path="/explain")


class Authority:
    """Permits the paths in `allowed`."""

    def __init__(self):
        self.asked = []
        self.allowed = {"/explain"}
        self.error = None
        self.free = asyncio.Event()
        self.free.set()

    async def review_access(self, spec):
        self.asked.append(spec)
        await self.free.wait()
        if self.error:
            raise self.error
        path = spec["nonResourceAttributes"]["path"]
        return AccessReview(allowed=path in self.allowed, reason="RBAC")


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def clock():
    return Clock(0.0)


@pytest.fixture
def reviewer(authority, clock):
    return AccessReviewer(authority, timeout=0.05, clock=clock)


async def test_permission_and_denial_are_reused_for_ten_seconds(reviewer, authority, clock):
    other = NonResourceAttributes(path="/metrics")
    for clock.now in (0.0, 10.0):
        assert (await reviewer.review(JANE, PATH)).allowed
        assert not (await reviewer.review(JANE, other)).allowed
    assert len(authority.asked) == 2
    authority.allowed = {"/metrics"}
    clock.now = 10.1
    assert not (await reviewer.review(JANE, PATH)).allowed
    assert (await reviewer.review(JANE, other)).allowed
    assert len(authority.asked) == 4


async def test_users_and_questions_do_not_share_permissions(reviewer, authority):
    assert (await reviewer.review(JANE, PATH)).allowed
    authority.allowed.clear()
    for user in (User("joe"), User("jane", groups=("g",)), User("jane", uid="7")):
        assert not (await reviewer.review(user, PATH)).allowed
    assert not (
        await reviewer.review(JANE, NonResourceAttributes(path="/explain", verb="head"))
    ).allowed


async def test_explicit_denial_counts(reviewer, authority):
    async def denies(_spec):
        return AccessReview(allowed=True, denied=True, reason="webhook")

    authority.review_access = denies
    permission = await reviewer.review(JANE, PATH)
    assert (permission.allowed, permission.reason) == (False, "webhook")


async def test_concurrent_identical_questions_are_one_request(reviewer, authority):
    authority.free.clear()
    asking = [asyncio.create_task(reviewer.review(JANE, PATH)) for _ in range(50)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    authority.free.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert all(permission.allowed for permission in found[1:])
    assert len(authority.asked) == 1


async def test_silent_api_server_permits_nothing_even_after_a_permission(
    reviewer, authority, clock
):
    assert (await reviewer.review(JANE, PATH)).allowed
    clock.now = 11.0
    authority.free.clear()
    with pytest.raises(UnreviewedError, match=r"did not answer in 0\.05 s"):
        await reviewer.review(JANE, PATH)
    authority.free.set()
    authority.error = KubeError(0, "connection refused")
    with pytest.raises(UnreviewedError, match="connection refused"):
        await reviewer.review(JANE, PATH)
    authority.error = None
    assert (await reviewer.review(JANE, PATH)).allowed


async def test_flood_of_denials_is_bounded_and_displaces_no_permission(authority, clock):
    reviewer = AccessReviewer(authority, most=10, clock=clock)
    await reviewer.review(JANE, PATH)
    for number in range(50):
        await reviewer.review(JANE, NonResourceAttributes(path=f"/{number}"))
    asked = len(authority.asked)
    assert (await reviewer.review(JANE, PATH)).allowed
    assert len(authority.asked) == asked
    assert len(reviewer._denied) == 10


async def test_few_questions_are_asked_at_once(authority, clock):
    reviewer = AccessReviewer(authority, timeout=PATIENCE, clock=clock)
    authority.free.clear()
    asking = [
        asyncio.create_task(reviewer.review(JANE, NonResourceAttributes(path=f"/{number}")))
        for number in range(100)
    ]
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(authority.asked) == 16
    authority.free.set()
    assert len(await asyncio.gather(*asking)) == 100
