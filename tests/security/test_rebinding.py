"""A web page that binds its name to 127.0.0.1 reads nothing through a port-forward to the ops port."""

import json

import pytest

from evaluator.config import Settings
from evaluator.core.http import ops, ports
from evaluator.core.metrics import Metrics
from plimsoll.http.addresses import Address
from plimsoll.http.routes import without_rebinding
from plimsoll.http.types import Peer, Request
from tests.evaluator.features.pages.conftest import PagesOfPolicies
from tests.patience import patient

OPEN = frozenset({"/healthz"})
REBOUND = [
    "attacker.example",
    "attacker.example:8080",
    "localhost.attacker.example",
    "127.0.0.1.nip.io",
    "0.0.0.0:8080",
    "",
]
KNOWN = ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "10.1.2.3:8080"]
PAGES = ["/metrics", "/", "/index.json", "/policies/shop", "/explain", "/assets/style.css"]


@pytest.fixture
async def get(dial):
    """A client on loopback, as `kubectl port-forward` is one in the pod."""
    pages = PagesOfPolicies()
    server = ports.ops_server(
        Settings(),
        None,
        Metrics(),
        pages.server.answer,
        pages.targets.resource_path,
        limits=patient(ops.LIMITS),
    )
    (address,) = await server.listen([Address("127.0.0.1", 0)])

    async def ask(path, host):
        peer = await dial(address.port)
        return await peer.ask(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    yield ask
    await server.close()


@pytest.mark.parametrize("host", REBOUND)
async def test_names_of_web_sites_are_misdirected(get, host):
    for path in PAGES:
        reply = await get(path, host)
        assert reply.status == 421
        found = json.loads(reply.body)
        assert (found["kind"], found["code"]) == ("Status", 421)
        assert "localhost and IP addresses only" in found["message"]


@pytest.mark.parametrize("host", KNOWN)
async def test_localhost_and_addresses_are_answered(get, host):
    assert (await get("/metrics", host)).status == 200
    assert (await get("/", host)).status == 200


async def test_probes_may_use_any_host(get):
    for path in ("/healthz", "/readyz"):
        assert (await get(path, "attacker.example")).status in {200, 503}


@pytest.mark.parametrize(
    ("peer", "status"),
    [("127.0.0.1", 421), ("::1", 421), ("::ffff:127.0.0.1", 421), ("10.0.0.7", 200), ("", 200)],
)
async def test_only_clients_on_loopback_are_restricted(peer, status):
    pages = PagesOfPolicies()
    answer = without_rebinding(pages.server.answer, ports.ops_refusal, open_paths=OPEN)
    host = {"host": "plimsoll-evaluator.plimsoll.svc:8080"}
    request = Request("GET", "/metrics", {}, host, peer=Peer(peer))
    assert (await answer(request)).status == status
