"""A kubeconfig leads to a connection, or to an error message without secrets."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.core.kube import connection
from evaluator.core.kube.connection import ConfigError, KubeConnection
from evaluator.core.kube.transport import APISession
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[4]
DETECTED = 30
"""Seconds within which a lost peer is noticed."""

WATCH = """
import asyncio, json, subprocess, sys
from aiohttp import web
from evaluator.core.kube import connection
from evaluator.core.kube.client import Kube
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.resources import NODES

connection.IDLE, connection.INTERVAL, connection.PROBES, connection.UNACKNOWLEDGED = 1, 1, 2, 3000
watches = asyncio.Queue()
stored = asyncio.Queue()

class Sink:
    def replacing(self, objects):
        yield
    def put(self, found):
        stored.put_nowait(found)

async def answer(request):
    if "watch" not in request.query:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
    response = web.StreamResponse()
    await response.prepare(request)
    watches.put_nowait(response)
    await asyncio.Event().wait()

def link(state):
    subprocess.run(("ip", "link", "set", "lo", state), check=True)

async def main():
    link("up")
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 8001).start()
    kube = await Kube.connect(sys.argv[1])
    reflector = Reflector(kube, NODES, lambda raw: json.loads(bytes(raw)), Sink())
    interrupted = asyncio.Event()
    wait = reflector._wait
    def note(error):
        print(error, flush=True)
        interrupted.set()
        return min(0.1, wait(error))
    reflector._wait = note
    running = asyncio.create_task(reflector.run())
    await watches.get()
    link("down")
    await interrupted.wait()
    link("up")
    watch = await watches.get()
    event = {"type": "ADDED", "object": {"metadata": {"name": "new", "resourceVersion": "2"}}}
    await watch.write(json.dumps(event).encode() + b"\\n")
    print((await stored.get())["metadata"]["name"])
    running.cancel()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "just text",
        "{",
        "a: [",
        "\x00\x01",
        "clusters: 5",
        "apiVersion: v1\nkind: Config\n",
        "current-context: gone\ncontexts: []\nclusters: []\nusers: []\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: []\nusers: []\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {}}]\nusers: [{name: u, user: {}}]\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x',"
        " certificate-authority: /no/such/file}}]\nusers: [{name: u, user: {}}]\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x',"
        " certificate-authority-data: '!!!'}}]\nusers: [{name: u, user: {}}]\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x',"
        " certificate-authority-data: aGVsbG8=}}]\nusers: [{name: u, user: {}}]\n",
    ],
)
async def test_unusable_kubeconfig_is_explained_in_a_sentence(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigError, match="kubeconfig") as refused:
        await KubeConnection.open(str(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "users: [{user: {token: 'hunter2}}]",
        "users:\n- user: {token: hunter2: x}",
        "users: *hunter2",
        "hunter2",
        "users: [{name: u, user: {client-key-data: hunter2}}]\n",
        "users: [{name: u, user: {client-key-data: aHVudGVyMg==, client-certificate-data: aHVudGVyMg==}}]\n",
        "users: [{name: u, user: hunter2}]\n",
    ],
)
async def test_unusable_kubeconfig_is_not_quoted(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(
        f"{text}\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'https://localhost'}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        await KubeConnection.open(str(path))
    for secret in ("hunter2", "aHVudGVyMg=="):
        assert secret not in str(caught.value)


async def test_missing_kubeconfig_names_the_flag(tmp_path):
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*--kubeConfig"):
        await KubeConnection.open(str(tmp_path / "none"))


async def test_service_account_is_used_in_a_pod(monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConfigError, match=r"kubeconfig|service account"):
        await KubeConnection.open("")


def test_watch_of_a_lost_peer_is_reopened(kubeconfig):
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("needs root, unshare and ip (Debian: util-linux, iproute2)")
    done = subprocess.run(
        [
            "unshare",
            "--net",
            sys.executable,
            "-P",
            "-c",
            WATCH,
            kubeconfig("http://127.0.0.1:8001"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    if done.returncode and "not permitted" in done.stderr:
        pytest.skip(f"this machine allows no namespaces: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "watch of nodes broke" in done.stdout
    assert done.stdout.splitlines()[-1] == "new"


@pytest.mark.skipif(sys.platform != "linux", reason="the options are those of Linux")
async def test_connections_to_the_api_server_are_probed(stub_server, answer, connect, monkeypatch):
    opened = []
    open_socket = connection.open_socket

    def note(address):
        opened.append(open_socket(address))
        return opened[-1]

    monkeypatch.setattr(connection, "open_socket", note)
    stub_server.then(answer.says(200, {"status": {}}))
    kube = await connect(stub_server.url)
    await kube.review_token("token", "")
    (probed,) = opened
    idle, interval, probes, unacknowledged = (
        probed.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    )
    assert probed.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert idle + interval * probes <= DETECTED
    assert 0 < unacknowledged <= DETECTED * 1000


class Silent:
    """A connection that notes the deadlines of requests."""

    host = "http://api"

    async def token(self):
        return ""

    async def send(self, method, url, headers, body, *, timeout):
        self.timeout = timeout
        raise asyncio.CancelledError


async def test_request_has_deadlines_for_connecting_and_as_a_whole():
    connection = Silent()
    with pytest.raises(asyncio.CancelledError):
        await APISession(connection).send("GET", "/api/v1/nodes", {})
    assert connection.timeout.sock_connect <= 5
    assert connection.timeout.total <= 30
    # A busy server needs long for the first byte of a page of large objects.
    assert (connection.timeout.sock_read or 30) >= 30
