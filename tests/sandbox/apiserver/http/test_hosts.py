"""A web page that uses DNS rebinding cannot reach the API, which has no credentials."""

import aiohttp
import pytest

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        "127.0.0.1:65535",
        "127.1.2.3",
        "[::1]",
        "[::1]:8001",
    ],
)
async def test_loopback_names_are_accepted(api, host):
    assert (await api.call("GET", PODS, headers={"Host": host})).code == 200


async def test_metrics_of_the_server_process_are_served(api):
    async with aiohttp.ClientSession() as session, session.get(f"{api.url}/metrics") as response:
        assert response.status == 200
        assert "process_resident_memory_bytes" in await response.text()


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:8001",
        "localhost.attacker.example",
        "127.0.0.1.nip.io",
        "user@attacker.example",
        "10.0.0.1",
        "0.0.0.0",
        "[::1",
        "[2001:db8::1]:80",
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
async def test_other_hosts_are_rejected_with_a_status(api, method, host):
    reply = await api.call(method, PODS, {} if method == "POST" else None, headers={"Host": host})
    assert (reply.code, reply.reason) == (421, "MisdirectedRequest")
    assert repr(host) in reply.body["message"]
    assert "localhost" in reply.body["message"]


async def test_host_name_in_the_rejection_is_bounded(api):
    reply = await api.call("GET", "/healthz", headers={"Host": "a" * 5_000 + ".example"})
    assert reply.code == 421
    assert len(reply.body["message"]) < 300
