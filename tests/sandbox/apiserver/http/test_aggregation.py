"""The sandbox's aggregation layer: availability, forwarding as the front proxy, and discovery."""

import asyncio
import base64
import itertools
import ssl
import subprocess

import aiohttp
import pytest
from aiohttp import web

from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError, Client
from sandbox.client.objects import ObjectKind
from sandbox.endpoints import kubeconfig
from sandbox.pki import CertificateAuthority
from tests.patience import PATIENCE

API_SERVICES = ObjectKind("apiservices", "apiregistration.k8s.io/v1", namespaced=False)
SERVICES = ObjectKind("services")
GROUP = "custom.metrics.k8s.io"
NAME = f"v1beta2.{GROUP}"
DISCOVERED = {
    "metadata": {"name": GROUP},
    "versions": [{"version": "v1beta2", "resources": [], "freshness": "Current"}],
}


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """A CA that signs both the program's certificate and the front proxy's."""
    ca = CertificateAuthority(tmp_path_factory.mktemp("pki"))
    ca.issue("program", san="DNS:metrics.default.svc")
    ca.issue("front-proxy-client")
    return ca


@pytest.fixture
async def program(pki):
    """A program that requires the front proxy's certificate and repeats what it receives; returns its URL.

    Below /broken, each second request fails, the first one too.
    """
    numbers = itertools.count()

    async def answer(request):
        if request.path.startswith("/broken") and next(numbers) % 2 == 0:
            return web.Response(status=502)
        if request.path == "/apis":
            return web.json_response({"items": [DISCOVERED]})
        subject = request.transport.get_extra_info("peercert")["subject"]
        remote = [(k, v) for k, v in request.headers.items() if k.startswith("X-Remote")]
        seen = {"path": request.path_qs, "subject": subject, "remote": remote}
        return web.json_response(seen, headers={"ETag": '"1"'})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pki.file)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pki.folder / "program.crt", pki.folder / "program.key")
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
async def server(pki, program):
    made = ApiServer()
    made.use_front_proxy(pki.file, pki.issue("front-proxy-client"))
    made.serve_as("default", "metrics", "https", program)
    yield made
    await made.close()


@pytest.fixture
async def client(server):
    async with Client(await server.start()) as made:
        yield made


def service(port=443):
    spec = {"ports": [{"name": "https", "port": port}]}
    meta = {"name": "metrics", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def api_service(pki, **changes):
    spec = {
        "group": GROUP,
        "version": "v1beta2",
        "service": {"name": "metrics", "namespace": "default"},
        "caBundle": base64.b64encode(pki.file.read_bytes()).decode(),
        "groupPriorityMinimum": 100,
        "versionPriority": 200,
        **changes,
    }
    return {
        "apiVersion": API_SERVICES.api_version,
        "kind": "APIService",
        "metadata": {"name": NAME},
        "spec": spec,
    }


async def condition(client, wanted):
    """Wait until the condition Available has this reason; return it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status = (await client.get(API_SERVICES, NAME)).get("status") or {}
            for found in status.get("conditions") or ():
                if found["reason"] == wanted:
                    return found
            await asyncio.sleep(0.01)


async def test_request_is_forwarded_as_the_front_proxy(client, pki):
    await client.create(SERVICES, service())
    await client.create(API_SERVICES, api_service(pki))
    assert (await condition(client, "Passed"))["status"] == "True"
    path = f"/apis/{GROUP}/v1beta2/nodes/*/m?labelSelector=a%3Db"
    seen = await client.request("GET", path)
    assert seen["path"] == path
    assert seen["subject"] == [[["commonName", "front-proxy-client"]]]
    assert ["X-Remote-User", "admin"] in seen["remote"]
    assert ["X-Remote-Group", "system:masters"] in seen["remote"]


async def test_group_is_in_legacy_and_aggregated_discovery(client, pki):
    await client.create(SERVICES, service())
    await client.create(API_SERVICES, api_service(pki))
    await condition(client, "Passed")
    names = [group["name"] for group in (await client.request("GET", "/apis"))["groups"]]
    assert names.count(GROUP) == 1
    group = await client.request("GET", f"/apis/{GROUP}")
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1beta2", "version": "v1beta2"}
    accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{client.url}/apis", headers=accept) as response,
    ):
        assert DISCOVERED in (await response.json())["items"]


async def test_reason_says_what_is_missing(client, server, pki):
    await client.create(API_SERVICES, api_service(pki))
    await condition(client, "ServiceNotFound")
    with pytest.raises(ApiError, match="currently unable to handle the request") as refused:
        await client.request("GET", f"/apis/{GROUP}/v1beta2/nodes/*/m")
    assert refused.value.status == 503
    await client.create(SERVICES, service(port=8443))
    found = await condition(client, "ServicePortError")
    assert found["message"] == 'service/metrics in "default" is not listening on port 443'
    await client.update(SERVICES, service())
    await condition(client, "Passed")
    server.serve_as("default", "metrics", "https", "https://127.0.0.1:1")
    assert (await condition(client, "FailedDiscoveryCheck"))["status"] == "False"


async def test_service_is_available_while_one_of_its_endpoints_fails(client, server, program, pki):
    server.serve_as("default", "metrics", "https", f"{program}/broken")
    await client.create(SERVICES, service())
    await client.create(API_SERVICES, api_service(pki))
    async with asyncio.timeout(PATIENCE):
        while not (status := (await client.get(API_SERVICES, NAME)).get("status")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert status["conditions"][0]["reason"] == "Passed"


async def test_program_with_a_certificate_of_another_ca_is_not_available(client, pki, tmp_path):
    other = CertificateAuthority(tmp_path, "other").file.read_bytes()
    await client.create(SERVICES, service())
    bundle = base64.b64encode(other).decode()
    await client.create(API_SERVICES, api_service(pki, caBundle=bundle))
    assert (
        "certificate verify failed" in (await condition(client, "FailedDiscoveryCheck"))["message"]
    )
    skipping = api_service(pki, caBundle=None, insecureSkipTLSVerify=True)
    await client.update(API_SERVICES, skipping)
    await condition(client, "Passed")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": "v1"}, "spec.version"),
        ({"service": {"name": "metrics"}}, "spec.service.namespace"),
        ({"insecureSkipTLSVerify": True}, "may not be true if caBundle is present"),
        ({"caBundle": "%"}, "unable to load root certificates"),
    ],
)
async def test_invalid_apiservice_is_rejected(client, pki, changes, says):
    with pytest.raises(ApiError, match=says):
        await client.create(API_SERVICES, api_service(pki, **changes))


async def test_kubectl_shows_service_and_availability(client, pki, tmp_path):
    await client.create(API_SERVICES, api_service(pki))
    await condition(client, "ServiceNotFound")
    config = tmp_path / "kubeconfig"
    config.write_text(kubeconfig(client.url))
    command = ("kubectl", f"--kubeconfig={config}", "get", "apiservice", "--no-headers")
    shown = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE
    )
    assert shown.stdout.split()[:4] == [NAME, "default/metrics", "False", "(ServiceNotFound)"]
