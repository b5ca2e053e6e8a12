"""Tokens are reviewed rarely, and an API outage ends no stream."""

import asyncio

import pytest

from evaluator.core.access.review_limits import ReviewLimits, network
from evaluator.core.access.user import InvalidTokenError, UnreviewedError
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.api_status import ReviewedUser, TokenReview
from evaluator.core.model.names import ObjectMeta
from evaluator.core.model.pod import Pod, PodSpec
from evaluator.core.sources.agents.authn import TokenAuthenticator, address
from tests.clock import Clock

NODE = "authentication.kubernetes.io/node-name"
POD = "authentication.kubernetes.io/pod-name"
UID = "authentication.kubernetes.io/pod-uid"
STRANGER = "ipv4:10.0.0.9:4711"


class Authority:
    """Tokens are the names of their nodes; `pod:` tokens name a pod."""

    def __init__(self):
        self.asked = []
        self.error = None
        self.revoked = set()
        self.pods = {}
        self.free = asyncio.Event()
        self.free.set()

    async def review_token(self, token, audience):
        self.asked.append(token)
        await self.free.wait()
        if self.error:
            raise self.error
        if token in self.revoked:
            return TokenReview(error="revoked")
        extra = {NODE: [token]}
        if token.startswith("pod:"):
            extra = {POD: [token[4:]], UID: ["u"]}
        return TokenReview(
            True, ReviewedUser("system:serviceaccount:p:agent", extra), [audience], ""
        )

    async def get_pod(self, namespace, name):
        if self.error:
            raise self.error
        if name not in self.pods:
            raise KubeError(404, "no such pod")
        uid, node = self.pods[name]
        return Pod(ObjectMeta(name=name, namespace=namespace, uid=uid), PodSpec(node_name=node))


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def clock():
    return Clock(0.0)


@pytest.fixture
def reviewer(authority, clock):
    return TokenAuthenticator(authority, audience="us", account="p/agent", clock=clock)


async def test_result_is_cached_for_a_minute(reviewer, authority, clock):
    assert [await reviewer.node_of("node-a") for _ in range(3)] == ["node-a"] * 3
    clock.now = 60.0
    await reviewer.node_of("node-a")
    assert len(authority.asked) == 1
    clock.now = 61.0
    authority.revoked.add("node-a")
    with pytest.raises(InvalidTokenError, match="revoked"):
        await reviewer.node_of("node-a")
    assert len(authority.asked) == 2


async def test_rejection_is_cached_too(reviewer, authority, clock):
    authority.revoked.add("x")
    for _ in range(3):
        with pytest.raises(InvalidTokenError, match="revoked"):
            await reviewer.node_of("x")
    assert len(authority.asked) == 1
    authority.revoked.clear()
    clock.now = 61.0
    assert await reviewer.node_of("x") == "x"


async def test_token_in_a_review_error_is_redacted(reviewer, authority):
    async def repeats(token, _audience):
        return TokenReview(error=f"no such token: {token}")

    authority.review_token = repeats
    with pytest.raises(
        InvalidTokenError, match=r"^the token is not valid: no such token: \[hidden]$"
    ):
        await reviewer.node_of("eyJhbGciOi")


async def test_concurrent_reviews_of_one_token_are_one_request(reviewer, authority):
    authority.free.clear()
    asking = [asyncio.create_task(reviewer.node_of("node-a")) for _ in range(20)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    authority.free.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert found[1:] == ["node-a"] * 19
    assert len(authority.asked) == 1


async def test_flood_of_tokens_is_reviewed_a_few_at_a_time(reviewer, authority):
    authority.free.clear()
    asking = [asyncio.create_task(reviewer.node_of(f"n-{number}")) for number in range(100)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(authority.asked) == 8
    authority.free.set()
    assert len(await asyncio.gather(*asking)) == 100


async def test_older_acceptance_counts_for_an_hour_during_an_api_outage(reviewer, authority, clock):
    await reviewer.node_of("node-a")
    authority.error = KubeError(0, "connection refused")
    clock.now = 3599.0
    assert await reviewer.node_of("node-a") == "node-a"
    clock.now = 3600.0
    with pytest.raises(UnreviewedError, match="connection refused"):
        await reviewer.node_of("node-a")
    authority.error = None
    assert await reviewer.node_of("node-a") == "node-a"


async def test_older_rejection_stays_during_an_api_outage(reviewer, authority, clock):
    authority.revoked.add("x")
    with pytest.raises(InvalidTokenError):
        await reviewer.node_of("x")
    authority.error = KubeError(500, "broken")
    clock.now = 100.0
    with pytest.raises(UnreviewedError):
        await reviewer.node_of("x")


async def test_node_of_a_pod_bound_token_is_looked_up(reviewer, authority):
    authority.pods["agent-x"] = ("u", "node-a")
    assert await reviewer.node_of("pod:agent-x") == "node-a"


@pytest.mark.parametrize("pod", [None, ("another", "node-a"), ("u", "")])
async def test_missing_replaced_or_unbound_pod_is_rejected(reviewer, authority, pod):
    if pod:
        authority.pods["agent-x"] = pod
    with pytest.raises(InvalidTokenError, match="agent-x is gone"):
        await reviewer.node_of("pod:agent-x")


async def refused(reviewer, tokens, peer):
    """The number of these tokens reviewed as invalid, and the number not reviewed."""
    results = await asyncio.gather(
        *(reviewer.node_of(token, peer) for token in tokens), return_exceptions=True
    )
    kinds = [type(result) for result in results]
    return kinds.count(InvalidTokenError), kinds.count(UnreviewedError)


def made_up(authority, count, name="x"):
    tokens = [f"{name}-{number}" for number in range(count)]
    authority.revoked.update(tokens)
    return tokens


async def test_invalid_tokens_of_one_address_are_reviewed_at_a_bounded_rate(
    reviewer, authority, clock
):
    reviewed, unreviewed = await refused(reviewer, made_up(authority, 500), STRANGER)
    assert (reviewed, unreviewed, len(authority.asked)) == (10, 490, 10)
    clock.now = 60.0
    reviewed, _ = await refused(reviewer, made_up(authority, 500, "y"), STRANGER)
    assert reviewed == 10
    assert len(authority.asked) == 20


async def test_ports_of_an_address_share_its_rate(reviewer, authority):
    for port in range(100):
        await refused(reviewer, made_up(authority, 1, f"p{port}"), f"ipv4:10.0.0.9:{port}")
    assert len(authority.asked) == 10


async def test_flood_of_one_address_delays_no_agent_at_another(reviewer, authority):
    await refused(reviewer, made_up(authority, 500), STRANGER)
    assert await reviewer.node_of("node-a", "ipv4:10.0.0.1:4711") == "node-a"


async def test_flood_of_many_addresses_delays_no_agent_at_a_known_good_address(
    reviewer, authority, clock
):
    """The global rate is used up and the clock is fixed: a waiting request would wait forever."""
    await reviewer.node_of("node-a", "ipv4:10.0.0.1:4711")
    for number in range(10):
        await refused(reviewer, made_up(authority, 10, f"a{number}"), f"ipv4:10.0.1.{number}:1")
    assert len(authority.asked) == 101
    assert await reviewer.node_of("node-a-renewed", "ipv4:10.0.0.1:4712") == "node-a-renewed"
    untrusted = asyncio.create_task(
        refused(reviewer, made_up(authority, 1, "z"), "ipv4:10.0.2.1:1")
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(authority.asked) == 102
    untrusted.cancel()


async def test_concurrent_new_addresses_share_one_rate(reviewer, authority):
    floods = [
        asyncio.create_task(
            refused(reviewer, made_up(authority, 10, f"a{n}"), f"ipv4:10.0.1.{n}:1")
        )
        for n in range(100)
    ]
    for _ in range(2_000):
        await asyncio.sleep(0)
    assert len(authority.asked) == 100
    for flood in floods:
        flood.cancel()


async def test_valid_token_is_reviewed_again_despite_its_address(reviewer, authority, clock):
    await reviewer.node_of("node-a", STRANGER)
    await refused(reviewer, made_up(authority, 500), STRANGER)
    clock.now = 61.0
    await refused(reviewer, made_up(authority, 500, "y"), STRANGER)
    assert await reviewer.node_of("node-a", STRANGER) == "node-a"
    assert authority.asked[-1] == "node-a"


async def test_valid_tokens_of_one_address_are_not_limited(reviewer, authority):
    """A fleet behind a proxy after a restart of the evaluator."""
    tokens = [f"n-{number}" for number in range(2_000)]
    found = await asyncio.gather(*(reviewer.node_of(token, STRANGER) for token in tokens))
    assert found == tokens


async def test_flood_of_invalid_tokens_evicts_no_valid_one(authority, clock):
    limits = ReviewLimits(peer_rate=1e6, peer_burst=100_000, rate=1e6, burst=100_000)
    reviewer = TokenAuthenticator(
        authority, audience="us", account="p/agent", limits=limits, clock=clock
    )
    await reviewer.node_of("node-a", STRANGER)
    for number in range(42):
        await refused(reviewer, made_up(authority, 500, f"x{number}"), STRANGER)
    assert await reviewer.node_of("node-a", STRANGER) == "node-a"
    assert authority.asked.count("node-a") == 1


async def test_cancelled_wait_passes_its_slot_on(reviewer, authority):
    authority.free.clear()
    asking = [asyncio.create_task(reviewer.node_of(f"n-{n}", STRANGER)) for n in range(30)]
    await asyncio.sleep(0)
    for waiting in asking[10:20]:
        waiting.cancel()
    authority.free.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert found[20:] == [f"n-{n}" for n in range(20, 30)]


async def test_reviews_without_a_response_are_not_charged(reviewer, authority):
    authority.error = KubeError(500, "broken")
    await refused(reviewer, [f"n-{n}" for n in range(50)], STRANGER)
    authority.error = None
    assert await reviewer.node_of("node-a", STRANGER) == "node-a"


@pytest.mark.parametrize(
    ("peer", "key"),
    [
        ("ipv4:10.0.0.1:4711", "10.0.0.1"),
        ("ipv6:%5B::1%5D:4711", "::/64"),
        ("ipv6:[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:10.0.0.1%5D:4711", "10.0.0.1"),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", "fe80::/64"),
        ("unix:", "unix:"),
        ("", ""),
    ],
)
def test_peer_address_is_reduced_to_its_network(peer, key):
    assert network(address(peer)) == key


@pytest.mark.parametrize("token", ["", "x" * 20_000])
async def test_malformed_token_is_not_reviewed(reviewer, authority, token):
    with pytest.raises(InvalidTokenError):
        await reviewer.node_of(token)
    assert authority.asked == []
