"""The operations port without --opsAuthorize: metrics and probes for all, pages for kubectl port-forward and --pagesFrom."""

import argparse
import json
import socket

import aiohttp
import pytest

from evaluator.config import Settings
from evaluator.core.http import ops, ports
from evaluator.core.metrics import Metrics
from plimsoll import flags
from plimsoll.http import networks
from plimsoll.http.addresses import Address
from plimsoll.http.types import Peer, Request
from tests.evaluator.features.pages.conftest import PagesOfPolicies
from tests.patience import patient

PAGES = (
    *("/", "/index.json", "/policies/shop", "/nodes", "/pods/shop/web", "/history", "/rules"),
    *("/explain", "/explain/shop", "/assets/pages.css", "/none", "/healthz/", "/metrics/x"),
)
POD = "10.244.1.9"


@pytest.fixture
def ask():
    """Ask as a client of an address, with these settings."""
    handler = PagesOfPolicies().server.answer

    async def answer(path, peer, admitted=""):
        private = ports.private_pages(handler, networks.parse(admitted))
        return await private(Request("GET", path, {}, {"host": "x:8080"}, peer=Peer(peer)))

    return answer


async def test_pods_read_metrics_and_no_page(ask):
    for path in ("/metrics", "/healthz", "/readyz"):
        assert (await ask(path, POD)).status in {200, 503}
    for path in PAGES:
        assert (await ask(path, POD)).status == 403, path


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_port_forward_reads_pages(ask, peer):
    for path in PAGES:
        assert (await ask(path, peer)).status in {200, 404}, path


async def test_chosen_networks_read_pages(ask):
    assert (await ask("/", "10.0.0.7", "10.0.0.7")).status == 200
    assert (await ask("/", "::ffff:10.0.0.7", "10.0.0.0/8")).status == 200
    assert (await ask("/", POD, "10.0.0.7,fd00::/8")).status == 403
    assert (await ask("/", "", "0.0.0.0/0,::/0")).status == 403, "a client of no known address"


def test_networks_are_those_of_the_flag():
    parser = argparse.ArgumentParser()
    argv = ["--pagesFrom=10.0.0.7/32,fd00::/8"]
    settings = flags.parse_settings(Settings, parser, argv=argv, env={})
    assert networks.contains(settings.pages_from, "10.0.0.7")
    assert not networks.contains(settings.pages_from, POD)


async def test_refusal_says_which_address_to_open_the_pages_to(ask):
    body = b"".join((await ask("/explain", "::ffff:10.0.0.7")).body.parts)
    assert "--pagesFrom=10.0.0.7/32 (docs/pages.md#access)" in json.loads(body)["message"]


async def test_client_chooses_no_address_by_a_header():
    """Over the server's own sockets, from another address of this machine."""
    handler, address = PagesOfPolicies().server.answer, other_address()
    server = ports.ops_server(
        Settings(), None, Metrics(), handler, lambda _: None, limits=patient(ops.LIMITS)
    )
    (bound,) = await server.listen([Address(address, 0)])
    headers = {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
    async with aiohttp.ClientSession(f"http://{address}:{bound.port}", headers=headers) as session:
        for path, status in (("/metrics", 200), ("/explain", 403)):
            async with session.get(path) as response:
                assert response.status == status
                assert status == 200 or f"--pagesFrom={address}/32" in await response.text()
    await server.close()


def other_address():
    """An address of this machine that is not on loopback; connecting a UDP socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return probe.getsockname()[0]
