"""The ops port with --opsTls and --opsAuthorize beside a real API server: the roles of components/ops-access, Prometheus, a browser."""

import asyncio
import json
import re
import shutil
import subprocess
import time

import aiohttp
import pytest

from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ensure
from sandbox.client.objects import NAMESPACES, ObjectKind
from tests import prometheus
from tests.eventually import eventually

pytestmark = [
    pytest.mark.features("pages"),
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on PATH"),
]

RBAC = "rbac.authorization.k8s.io/v1"
ACCOUNTS = ObjectKind("serviceaccounts")
KINDS = {
    "ClusterRole": ObjectKind("clusterroles", RBAC, namespaced=False),
    "ClusterRoleBinding": ObjectKind("clusterrolebindings", RBAC, namespaced=False),
    "ServiceAccount": ACCOUNTS,
}
COMPONENT = "components/ops-access"
TENANTS = ("shop", "workshop")


def tenancy(tenant):
    """An account with the role of docs/pages.md for the namespace of the same name."""
    account = {"name": tenant, "namespace": "plimsoll"}
    sections = ("policies", "pods", "gangs")
    urls = [f"/plimsoll/{section}/{tenant}/*" for section in sections]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": RBAC,
            "kind": "ClusterRole",
            "metadata": {"name": f"pages-{tenant}"},
            "rules": [{"nonResourceURLs": urls, "verbs": ["get"]}],
        },
        {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"pages-{tenant}"},
            "roleRef": {"apiGroup": RBAC[:-3], "kind": "ClusterRole", "name": f"pages-{tenant}"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
    ]


@pytest.fixture
async def secured(world, authority):
    """The evaluator with a protected port, and the accounts `plimsoll-metrics` and `reader`, who reads pages."""
    if isinstance(world.plane.server, ApiServer):
        pytest.skip("the sandbox reviews no tokens")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plimsoll"}}
    await ensure(world.client, NAMESPACES, namespace)
    for path in (f"{COMPONENT}/rbac.yaml", f"{COMPONENT}/prometheus.yaml"):
        for obj in manifests.load(manifests.folder() / path):
            if obj["kind"] in KINDS:  # the token's Secret needs a controller
                await ensure(world.client, KINDS[obj["kind"]], obj)
    reader = {"name": "reader", "namespace": "plimsoll"}
    await ensure(
        world.client, ACCOUNTS, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": reader}
    )
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": RBAC[:-3], "kind": "ClusterRole", "name": "plimsoll-pages"},
        "subjects": [{"kind": "ServiceAccount", **reader}],
    }
    await ensure(world.client, KINDS["ClusterRoleBinding"], binding)
    for tenant in TENANTS:
        for obj in tenancy(tenant):
            await ensure(world.client, KINDS[obj["kind"]], obj)
    cert, key = authority.issue("ops")
    await world.start("--opsTls", "--opsAuthorize", f"--cert={cert}", f"--key={key}")

    async def token(account):
        path = f"/api/v1/namespaces/plimsoll/serviceaccounts/{account}/token"
        made = await world.client.request("POST", path, body={"spec": {"expirationSeconds": 600}})
        return made["status"]["token"]

    return token


async def test_roles_of_the_component_admit_prometheus_and_readers(
    world, secured, authority, tmp_path
):
    metrics, reader = await secured("plimsoll-metrics"), await secured("reader")

    async def bound():
        return (await world.evaluator.get("/", reader))[0] == 200

    await eventually(bound)
    paths = ("/metrics", "/", "/nodes", "/explain", "/readyz")
    found = {
        name: [(await world.evaluator.get(path, token))[0] for path in paths]
        for name, token in (("metrics", metrics), ("reader", reader), ("anonymous", ""))
    }
    assert found == {
        "metrics": [200, 403, 403, 403, 200],
        "reader": [403, 200, 200, 200, 200],
        "anonymous": [401, 401, 401, 401, 200],
    }
    if shutil.which("prometheus"):
        await scraped(world, metrics, authority, tmp_path)


async def test_tenants_read_only_pages_of_their_namespaces(world, secured):
    tokens = {tenant: await secured(tenant) for tenant in TENANTS}

    async def bound():
        found = [(await world.evaluator.get(f"/pods/{one}/", tokens[one]))[0] for one in TENANTS]
        return found == [200, 200]

    await eventually(bound)
    statuses = {}
    for path in (
        "/policies/{}",
        "/policies/{}.json",
        "/pods/{}/?search=e",
        "/explain/{}/none",
        "/explain?pod={}/none",
        "/pods?pod={}/none",
        "/pods/shop/?pod={}/none",
        "/policies/shop/..%2F{}",
    ):
        own, other = (path.format(tenant) for tenant in TENANTS)
        statuses[path] = [(await world.evaluator.get(at, tokens["shop"]))[0] for at in (own, other)]
    assert statuses == {
        "/policies/{}": [200, 403],
        "/policies/{}.json": [200, 403],
        "/pods/{}/?search=e": [200, 403],
        "/explain/{}/none": [404, 403],
        "/explain?pod={}/none": [404, 403],
        "/pods?pod={}/none": [404, 403],
        "/pods/shop/?pod={}/none": [404, 403],
        "/policies/shop/..%2F{}": [404, 404],
    }


async def scraped(world, token, authority, folder):
    """A real Prometheus scrapes with the token, and verifies the certificate."""
    job = {
        "job_name": "evaluator",
        "scrape_interval": "200ms",
        "scrape_timeout": "200ms",
        "scheme": "https",
        "authorization": {"credentials": token},
        "tls_config": {"ca_file": str(authority.file)},
        "static_configs": [{"targets": [world.evaluator.operations.removeprefix("https://")]}],
    }
    with prometheus.running(folder, {"scrape_configs": [job]}) as server:

        async def ready():
            return server.ask("plimsoll_ready", round(time.time() * 1000))

        assert set((await eventually(ready)).values()) == {1.0}


async def test_kubectl_and_a_browser_behind_it_read_pages_with_the_users_token(world, secured):
    """The ways of docs/pages.md and docs/kubectl-plugin.md; the credentials of a kubeconfig are sent to --server."""
    kubectl = (
        "kubectl",
        f"--kubeconfig={world.plane.kubeconfig}",
        f"--server={world.evaluator.operations}",
        "--insecure-skip-tls-verify",
        f"--token={await secured('reader')}",
    )

    async def explained():
        command = [*kubectl, "get", "--raw", "/explain"]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True)
        return done.returncode == 0 and json.loads(done.stdout)

    assert (await eventually(explained))["waitingFor"] == []
    proxying = await asyncio.create_subprocess_exec(
        *kubectl, "proxy", "--port=0", stdout=subprocess.PIPE
    )
    try:
        line = (await proxying.stdout.readline()).decode()
        address = re.search(r"127\.0\.0\.1:\d+", line)[0]
        async with aiohttp.ClientSession() as session:

            async def page():
                async with session.get(
                    f"http://{address}/", headers={"accept": "text/html"}
                ) as reply:
                    return await reply.text() if reply.status == 200 else None

            text = await eventually(page)
            style = re.search(r'href="\./(assets/style[^"]+)"', text)[1]
            async with session.get(f"http://{address}/{style}") as reply:
                assert (reply.status, reply.content_type) == (200, "text/css")
    finally:
        proxying.terminate()
        await proxying.wait()
