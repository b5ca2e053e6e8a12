"""The sandbox's command line: help, errors and shutdown."""

import asyncio
import json
import re
import signal
import sys

import aiohttp
import psutil
import pytest

from sandbox.config import UpSettings, node_names
from sandbox.main import main

SANDBOX = (sys.executable, "-m", "sandbox")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--help"], ["up", "demo", "kubectl works on it"]),
        (["up", "--help"], ["--nodes", "--api-port", "node_health_metric 1", "kubectl"]),
        (["demo", "--help"], ["--dir", "gangs", "Exit status 0 only if every step was observed"]),
    ],
)
def test_help_has_examples(argv, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in said:
        assert words in text


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "required: COMMAND"),
        (["down"], "invalid choice: 'down'"),
        (["up", "--api-port", "http"], "--api-port: not a port: 'http'"),
        (["up", "--nodes", "node-a,../etc"], "--nodes: not a node name: '../etc'"),
        (["up", "--nodes", "a,a"], "'a' is named twice"),
        (["up", "--nodes", ""], "not a node name: ''"),
        (["up", "--nodes", "logs"], "call the node something else"),
        (["up", "--sync-period", "5"], "--sync-period: not a duration"),
        (
            ["demo", "rabbits"],
            "invalid choice: 'rabbits' (choose from 'health-metric', 'gangs', 'node-actions', 'signals', 'placement')",
        ),
        (["up", "--colour", "red"], "unrecognized arguments: --colour red"),
    ],
)
def test_mistake_is_a_sentence_with_status_2(argv, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_default_nodes_are_names():
    assert node_names(UpSettings().nodes) == "node-a,node-b,node-c"


def children_of(pid):
    return [child.pid for child in psutil.Process(pid).children()]


def exists(pid):
    return psutil.pid_exists(pid)


@pytest.mark.e2e
@pytest.mark.features("evictions", "pages")
async def test_up_runs_the_real_programs_until_interrupted(spawn, tmp_path, eventually):
    folder = tmp_path / "s"
    up = await spawn(*SANDBOX, "up", f"--dir={folder}", "--nodes=node-x,node-y", "--gangs")
    await eventually(lambda: (folder / "endpoints.json").exists() or up.returncode is not None)
    assert up.returncode is None
    found = json.loads((folder / "endpoints.json").read_text())
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{found['ops']}/readyz") as response:
            assert response.status == 200
        async with session.get(f"{found['ops']}/explain?gang=a/b") as response:
            assert "no gang a/b" in await response.text()
        # A name that no shipped rule records: the shipped rules run too, and a slow test sees their values.
        (folder / "node-x" / "node-metrics" / "text.prom").write_text("node_of_test 7\n")
        async with session.get(found["metrics/node-x"]) as response:
            assert "node_of_test 7" in await response.text()
        async with session.get(found["metrics/node-y"]) as response:
            assert "node_of_test" not in await response.text()
        path = "apis/apiregistration.k8s.io/v1/apiservices/v1beta2.custom.metrics.k8s.io"

        async def available():
            async with session.get(f"{found['api']}/{path}") as response:
                conditions = (await response.json()).get("status", {}).get("conditions") or [{}]
                return conditions[0].get("status") == "True"

        await eventually(available)
        async with session.get(f"{found['api']}/apis/custom.metrics.k8s.io/v1beta2") as response:
            assert (await response.json())["kind"] == "APIResourceList"
    children = children_of(up.pid)
    assert len(children) == 3
    up.send_signal(signal.SIGINT)
    printed, complained = await up.communicate()
    assert up.returncode == 0
    assert re.search(r"Kubernetes API +http://127\.0\.0\.1:\d+", printed.decode())
    assert "deploy/gang-demo/" in printed.decode()
    assert printed.decode().endswith("Stopped.\n")
    assert complained.decode() == ""
    assert not any(exists(pid) for pid in children)
    assert not (folder / "endpoints.json").exists()


@pytest.mark.e2e
async def test_port_in_use_is_a_sentence_with_status_1(spawn, tmp_path, unused_tcp_port):
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", unused_tcp_port
    )
    up = await spawn(*SANDBOX, "up", f"--dir={tmp_path}", f"--extender-port={unused_tcp_port}")
    _, complained = await up.communicate()
    server.close()
    await server.wait_closed()
    assert up.returncode == 1
    sentence = (
        f"plimsoll up: port {unused_tcp_port} on 127.0.0.1 is not free: Address already in use\n"
    )
    assert complained.decode() == sentence


def test_unusable_folder_is_a_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["up", f"--dir={tmp_path}/file"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("plimsoll up: ")
    assert f"{tmp_path}/file" in said


@pytest.mark.e2e
@pytest.mark.features("custom_metrics", "evictions", "problems", "scorers")
async def test_unknown_scorer_ends_it_with_the_evaluators_message(spawn, tmp_path):
    up = await spawn(*SANDBOX, "up", f"--dir={tmp_path}", "--nodes=a", "--scorers=safe,nobody")
    _, complained = await up.communicate()
    assert up.returncode == 1
    assert "no scorer 'nobody'; known: " in complained.decode()
    assert "Traceback" not in complained.decode()
