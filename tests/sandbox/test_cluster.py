"""A whole cluster with stub programs: what it provides and leaves behind."""

import asyncio
import json
import re
import signal
import sys

import aiohttp
import psutil
import pytest
import yaml

from sandbox.client.objects import CRDS, NODES, PODS
from sandbox.cluster import Cluster, ClusterError, ClusterSpec

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "pages")]

# Listens on the ports it is given and answers every request alike: a filter that lets all through, a red light for a
# while, whatever one asks.
STAND_IN = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/filter"):
            reply = {"NodeNames": json.loads(body)["NodeNames"]}
        else:
            reply = []
        text = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_GET = do_POST = answer
    def log_message(self, *args): pass

servers = [ThreadingHTTPServer(("127.0.0.1", int(port)), Handler) for port in sys.argv[1:]]
print("serving", *sys.argv[1:], flush=True)
threads = [Thread(target=server.serve_forever) for server in servers]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def stand_in(*ports):
    return (sys.executable, "-c", STAND_IN, *map(str, ports))


def agent(launch):
    return stand_in(launch.listen.rpartition(":")[2])


def evaluator(launch):
    return stand_in(launch.extender_port, launch.agent_port, launch.ops_port)


@pytest.fixture
def spec(tmp_path):
    def make(**options):
        named = {
            "dir": tmp_path / "s",
            "nodes": ("node-a", "node-b"),
            "agent": agent,
            "evaluator": evaluator,
        }
        return ClusterSpec(**(named | options))

    return make


def gone(pid):
    return not psutil.pid_exists(pid)


async def test_cluster_is_complete_when_entered_and_gone_when_left(spec, tmp_path, eventually):
    async with Cluster(spec()) as cluster:
        pids = [
            cluster.processes.pid(name) for name in ("evaluator", "agent-node-a", "agent-node-b")
        ]
        handed_out = json.loads((tmp_path / "s" / "endpoints.json").read_text())
        assert set(handed_out) == {
            "api",
            "extender",
            "ops",
            "agents",
            "metrics/node-a",
            "metrics/node-b",
        }
        config = yaml.safe_load((tmp_path / "s" / "kubeconfig").read_text())
        assert (
            config["clusters"][0]["cluster"]["server"] == handed_out["api"] == cluster.endpoints.api
        )
        async with aiohttp.ClientSession() as session:
            for name, url in handed_out.items():
                where = f"http://{url}" if name == "agents" else url
                async with session.get(where) as response:
                    assert response.status < 500, name
            services = f"{cluster.endpoints.api}/api/v1/namespaces/plimsoll/services"
            proxied = f"{services}/http:plimsoll-evaluator:ops/proxy/explain"
            async with (
                session.get(proxied) as through,
                session.get(f"{cluster.endpoints.ops}/explain") as direct,
            ):
                assert (through.status, await through.read()) == (200, await direct.read())
        names = [one["metadata"]["name"] for one in (await cluster.client.list(NODES)).items]
        assert names == ["node-a", "node-b"]
        crds = [one["metadata"]["name"] for one in (await cluster.client.list(CRDS)).items]
        assert crds == ["taspolicies.telemetry.intel.com"]
        assert cluster.node_metrics("node-a").is_dir()
        assert "serving" in (tmp_path / "s" / "logs" / "evaluator.log").read_text()
    assert all(gone(pid) for pid in pids)
    assert not (tmp_path / "s" / "endpoints.json").exists()


async def test_pod_is_bound_through_the_extender_and_runs(spec, eventually):
    async with Cluster(spec()) as cluster:
        container = {
            "name": "c",
            "image": "none:1",
            "resources": {"limits": {"telemetry/scheduling": 1}},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [container]},
        }
        await cluster.client.create(PODS, body)

        async def runs():
            pod = await cluster.client.get(PODS, "p", "default")
            return pod["status"]["phase"] == "Running" and pod

        pod = await eventually(runs)
        assert pod["spec"]["nodeName"] in {"node-a", "node-b"}
        assert cluster.binder.attempts["default/p"] == 1


@pytest.mark.parametrize("kill", [False, True])
async def test_restarted_programs_keep_their_addresses(spec, kill):
    deaths = []
    async with Cluster(spec(on_death=lambda *death: deaths.append(death))) as cluster:
        old = cluster.processes.pid("evaluator")
        await cluster.restart_evaluator(kill=kill)
        assert cluster.processes.pid("evaluator") != old
        await cluster.stop_agent("node-a", kill=kill)
        assert cluster.processes.pid("agent-node-a") is None
        await cluster.start_agent("node-a")
        async with aiohttp.ClientSession() as session:
            for url in (cluster.endpoints.metrics["node-a"], f"{cluster.endpoints.ops}/readyz"):
                async with session.get(url) as response:
                    assert response.status == 200
    assert deaths == []


async def test_program_that_exits_at_once_fails_the_start_with_its_last_lines(spec, tmp_path):
    def broken(launch):
        return (sys.executable, "-c", "raise SystemExit('no such policy')")

    with pytest.raises(ClusterError, match=r"(?s)evaluator died; .*no such policy") as caught:
        async with Cluster(spec(evaluator=broken)):
            raise AssertionError("it came up")
    assert "evaluator.log ends with:" in str(caught.value)
    assert not (tmp_path / "s" / "endpoints.json").exists()


async def test_program_that_never_gets_ready_times_out(spec):
    def mute(launch):
        return (sys.executable, "-c", "import time; time.sleep(600)")

    with pytest.raises(ClusterError, match="evaluator is not ready after 1 s"):
        async with Cluster(spec(evaluator=mute, ready_timeout=1.0)):
            raise AssertionError("it came up")


async def test_folder_has_one_sandbox(spec):
    async with Cluster(spec()):
        with pytest.raises(ClusterError, match=r"already runs in"):
            async with Cluster(spec()):
                raise AssertionError("it came up")


async def test_port_in_use_is_reported(spec, unused_tcp_port):
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", unused_tcp_port
    )
    with pytest.raises(ClusterError, match=f"port {unused_tcp_port}"):
        async with Cluster(spec(api_port=unused_tcp_port)):
            raise AssertionError("it came up")
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("keep", [False, True])
async def test_old_logs_are_removed_and_health_files_kept_on_request(spec, tmp_path, keep):
    health = tmp_path / "s" / "node-a" / "node-metrics" / "text.prom"
    old = tmp_path / "s" / "logs" / "evaluator.log"
    for path in (health, old):
        path.parent.mkdir(parents=True)
        path.write_text("from yesterday\n")
    async with Cluster(spec(keep=keep)):
        assert health.exists() == keep
        assert "from yesterday" not in old.read_text()


UP = """
import asyncio
from pathlib import Path
from plimsoll import logs
import importlib.util
spec = importlib.util.spec_from_file_location("standins", {this!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from sandbox.cluster import Cluster, ClusterSpec

async def main():
    logs.setup()
    wanted = ClusterSpec(dir=Path({folder!r}), nodes=("node-a",), agent=module.agent, evaluator=module.evaluator)
    async with Cluster(wanted) as cluster:
        print(*(cluster.processes.pid(name) for name in ("evaluator", "agent-node-a")), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_killed_sandbox_leaves_no_process_and_can_start_again(
    spawn, spec, tmp_path, eventually
):
    script = UP.format(this=__file__, folder=str(tmp_path / "s"))
    sandbox = await spawn(sys.executable, "-c", script)
    pids = [int(pid) for pid in re.findall(rb"\d+", await sandbox.stdout.readline())]
    assert len(pids) == 2
    assert not any(gone(pid) for pid in pids)
    sandbox.send_signal(signal.SIGKILL)
    await sandbox.wait()
    await eventually(lambda: all(gone(pid) for pid in pids))
    async with Cluster(spec(nodes=("node-a",))) as cluster:
        assert cluster.processes.pid("evaluator")
