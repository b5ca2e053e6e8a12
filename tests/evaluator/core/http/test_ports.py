"""The operations port with --opsTls and --opsAuthorize, over real TLS: who is admitted where, and renewed certificates."""

import asyncio
import json
from dataclasses import replace
from http import HTTPStatus

import pytest

from evaluator.config import Settings
from evaluator.core.http import ops, ports
from evaluator.core.kube.transport import KubeError
from evaluator.core.metrics import Metrics
from evaluator.core.model.api_status import AccessReview, ReviewedUser, TokenReview
from plimsoll.http.addresses import Address
from plimsoll.http.types import Response
from tests.patience import PATIENCE, patient

PROMETHEUS = "Authorization: Bearer prometheus"
TENANT = "Authorization: Bearer tenant"
ALLOWED = {
    "prometheus": lambda path: path == "/metrics",
    "tenant": lambda path: path.startswith("/plimsoll/policies/team-a/"),
}


class Authority:
    """An API server with two users, each with the permissions of ALLOWED."""

    def __init__(self):
        self.paths = []
        self.unavailable = False

    async def review_token(self, token, audience=""):
        if self.unavailable:
            raise KubeError(500, "etcd is gone")
        if token not in ALLOWED:
            return TokenReview(error="unknown")
        return TokenReview(True, ReviewedUser(token, {}, "1", []))

    async def review_access(self, spec):
        assert "resourceAttributes" not in spec
        assert spec["nonResourceAttributes"]["verb"] == "get"
        self.paths.append(spec["nonResourceAttributes"]["path"])
        return AccessReview(allowed=ALLOWED[spec["user"]](self.paths[-1]))


async def handler(request):
    return Response(HTTPStatus.OK, f"page {request.path}".encode())


def resource_path(request):
    """As a feature with pages says it: a page's address without `.json`; none for assets."""
    return None if request.path.startswith("/assets/") else request.path.removesuffix(".json")


@pytest.fixture
def api():
    return Authority()


@pytest.fixture
def settings(authority):
    cert, key = authority.issue("server")
    return Settings(cert=str(cert), key=str(key), ops_tls=True, ops_authorize=True)


@pytest.fixture
async def start(api):
    """Serve with these settings; return the port."""
    servers = []

    async def run(settings):
        limits = patient(ops.LIMITS)
        servers.append(
            ports.ops_server(settings, api, Metrics(), handler, resource_path, limits=limits)
        )
        (address,) = await servers[-1].listen([Address("127.0.0.1", 0)])
        return address.port

    yield run
    for server in servers:
        await server.close()


@pytest.fixture
async def get(start, settings, dial, authority):
    port = await start(settings)

    async def request(path, *headers):
        peer = await dial(port, authority.client())
        head = "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""])
        return await peer.ask(head.encode())

    return request


async def test_probes_need_no_credentials(get, api):
    for path in ("/healthz", "/readyz"):
        assert (await get(path)).status == 200
    assert api.paths == []


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/explain?pod=a/b", "/nodes.json", "/assets/a.css"]
)
async def test_other_pages_need_a_token(get, path):
    for headers in ((), ("Authorization: Bearer other",), ("Authorization: Basic YTpi",)):
        reply = await get(path, *headers)
        assert reply.status == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        assert b"page" not in reply.body


async def test_prometheus_reads_metrics_and_nothing_else(get, api):
    assert (await get("/metrics", PROMETHEUS)).body == b"page /metrics"
    for path in ("/", "/explain", "/metrics/", "/metricsx", "//metrics", "/nodes/a"):
        assert (await get(path, PROMETHEUS)).status == 403
    assert api.paths[0] == "/metrics"
    assert all(path.startswith("/plimsoll/") for path in api.paths[1:])


async def test_tenant_sees_what_rbac_permits(get):
    assert (await get("/policies/team-a/demo", TENANT)).status == 200
    assert (await get("/policies/team-a/demo.json?page=2", TENANT)).status == 200
    assert (await get("/assets/style.css", TENANT)).status == 200
    reply = await get("/policies/team-b/demo", TENANT)
    assert reply.status == 403
    status = json.loads(reply.body)
    assert (status["kind"], status["code"]) == ("Status", 403)
    sentence = 'forbidden: User "tenant" cannot get path "/plimsoll/policies/team-b/demo"'
    assert status["message"] == sentence


async def test_without_the_api_server_nothing_is_assumed(get, api):
    api.unavailable = True
    reply = await get("/metrics", PROMETHEUS)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert (await get("/readyz")).status == 200


async def test_tls_alone_needs_no_token(start, settings, dial, authority):
    port = await start(replace(settings, ops_authorize=False))
    peer = await dial(port, authority.client())
    assert (await peer.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")).status == 200
    plain = await dial(port)
    await plain.say(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await plain.rest()).startswith(b"HTTP/1.0 400 Bad Request\r\n")


async def test_renewed_certificate_is_presented_without_a_restart(start, settings, authority):
    port = await start(settings)

    async def serial():
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.client())
            certificate = writer.get_extra_info("peercert")
            writer.close()
            return certificate["serialNumber"]

    before = await serial()
    authority.issue("server")
    assert await serial() != before


def test_authorization_requires_tls():
    (found,) = [text for text in Settings(ops_authorize=True).mistakes() if "opsAuthorize" in text]
    assert "requires --opsTls" in found
