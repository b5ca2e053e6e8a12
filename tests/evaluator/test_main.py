"""plimsoll-evaluator as a process: start, work and exit."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import aiohttp
import grpc
import pytest

from evaluator.config import Settings
from evaluator.main import COMMANDS, main
from plimsoll import flags
from tests import preloaded
from tests.evaluator.evaluator_process import EvaluatorProcess
from tests.patience import PATIENCE
from tests.tuned_evaluator import tuned
from wire import telemetry_pb2, telemetry_pb2_grpc

pytestmark = pytest.mark.e2e

LOOPBACK = (
    *("--bindAddress=127.0.0.1", "--agentPort=0", "--opsPort=0", "--port=0"),
    "--shutdownDelay=0s",
)


@pytest.fixture
async def evaluator(tmp_path):
    """Start evaluators; they end with the test. `imported`: as forks of a process that has imported them."""
    started = []
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    async def start(*argv, program=("-m", "evaluator"), imported=True, **env):
        command = (sys.executable, "-P", *program, *argv)
        if imported:
            made = await preloaded.start(command, environment | env, stderr=subprocess.PIPE)
        else:
            made = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment | env,
            )
        process = EvaluatorProcess(made)
        started.append(process)
        return process

    yield start
    for process in started:
        await process.kill()


def is_a_sentence(process):
    """One line that names the program, and no traceback."""
    (line,) = [line for line in process.lines if not line.startswith("ts=")]
    assert line.startswith("plimsoll-evaluator: ")
    return line


async def test_mistake_exits_with_status_2(evaluator):
    process = await evaluator("--syncPeriod=20s", "--unsafe", imported=False)
    assert await process.ended() == 2
    assert "--staleAfter must be at least twice --syncPeriod" in is_a_sentence(process)


async def test_missing_kubeconfig_exits_with_status_1(evaluator):
    process = await evaluator("--unsafe", *LOOPBACK)
    assert await process.ended() == 1
    assert re.search(r"no kubeconfig at .*--kubeConfig", is_a_sentence(process))


async def test_bad_certificates_exit_with_status_1(evaluator, kubeconfig):
    process = await evaluator("--kubeConfig", kubeconfig("http://127.0.0.1:1"), *LOOPBACK)
    assert await process.ended() == 1
    assert "--cert /etc/kubernetes/pki/ca.crt" in is_a_sentence(process)


async def test_unusable_renewed_certificates_are_logged_and_not_loaded(
    evaluator, kubeconfig, authority, dial, tmp_path
):
    """With the process as in a cluster: its log, its metrics, and accepted clients."""
    good, other = authority.issue("evaluator"), authority.issue("other")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def put(place, source):
        shutil.copy(source, tmp_path / "new")
        (tmp_path / "new").replace(place)

    put(cert, good[0])
    put(key, good[1])
    argv = (f"--cert={cert}", f"--key={key}", f"--cacert={authority.file}", "--agentUnsafe")
    argv += ("--log.format=logfmt",)
    process = await evaluator(*argv, "--kubeConfig", kubeconfig("http://127.0.0.1:1"), *LOOPBACK)
    await process.listening()
    scheduler = authority.client(*authority.issue("kube-scheduler"))

    async def shown_and_measured():
        peer = await dial(process.ports["extender"], scheduler)
        head = b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
        assert (await peer.ask(head)).status == 400
        (((_, name),),) = peer.writer.get_extra_info("peercert")["subject"]
        ops = await dial(process.ports["ops"])
        text = (await ops.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")).body.decode()
        gauge = 'plimsoll_certificates_last_reload_successful{port="extender"}'
        (value,) = [line.split()[1] for line in text.splitlines() if line.startswith(gauge)]
        return name, float(value)

    assert await shown_and_measured() == ("evaluator", 1.0)
    put(cert, other[0])
    assert await shown_and_measured() == ("evaluator", 0.0)
    await process.said("certificates not reloaded")
    put(key, other[1])
    assert await shown_and_measured() == ("other", 1.0)
    assert not any("PRIVATE" in line or "Traceback" in line for line in process.lines)


async def test_clients_beyond_the_limits_are_closed(evaluator, kubeconfig, dial):
    small = tuned(
        limits={
            "header": 0.2,
            "body": 0.2,
            "idle": 0.2,
            "header_bytes": 300,
            "body_bytes": 1 << 10,
            "connections": 2,
        }
    )
    config = ("--kubeConfig", kubeconfig("http://127.0.0.1:1"))
    process = await evaluator("--unsafe", "--log.format=logfmt", *config, *LOOPBACK, program=small)
    await process.listening()
    head = b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\n"
    for raw, status in (
        (head, 408),
        (head + b"Content-Length: 9\r\n\r\n", 408),
        (head + b"X: " + b"y" * 300 + b"\r\n\r\n", 431),
        (head + b"Content-Length: 1025\r\n\r\n", 413),
    ):
        peer = await dial(process.ports["extender"])
        await peer.say(raw)
        assert [reply.status for reply in await peer.replies()] == [status]
        assert await peer.rest() == b""
    idle = await dial(process.ports["extender"])
    assert (await idle.ask(head + b"Content-Length: 2\r\n\r\n{}")).status == 400
    assert await idle.rest() == b""
    assert not any("Traceback" in line for line in process.lines)


@pytest.mark.parametrize("flag", ["port", "opsPort", "agentPort"])
async def test_port_in_use_exits_with_status_1(evaluator, kubeconfig, flag):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        config = kubeconfig("http://127.0.0.1:1")
        argv = (*LOOPBACK, f"--{flag}={number}")
        process = await evaluator("--unsafe", "--kubeConfig", config, *argv)
        assert await process.ended() == 1
    assert str(number) in is_a_sentence(process)


QUESTION = {
    "Pod": {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "labels": {"telemetry-policy": "demo"},
        }
    },
    "Nodes": None,
    "NodeNames": ["node-a"],
}


class World:
    """An API server with a policy and a node, and a running evaluator."""

    def __init__(self, api, evaluator, kubeconfig, session):
        self.api = api
        self._evaluator = evaluator
        self._kubeconfig = kubeconfig
        self._session = session
        self.process = None

    async def start(self, *argv, imported=True):
        flags = ("-unsafe", "--v=2", "-log.format=logfmt", *LOOPBACK, *argv)
        config = self._kubeconfig(self.api.url)
        self.process = await self._evaluator(*flags, imported=imported, KUBECONFIG=config)
        await self.process.listening()

    async def get(self, path):
        url = f"http://127.0.0.1:{self.process.ports['ops']}{path}"
        async with self._session.get(url) as response:
            return response.status, await response.text()

    async def until_ready(self, wanted=200):
        async with asyncio.timeout(PATIENCE):
            while (await self.get("/readyz"))[0] != wanted:  # noqa: ASYNC110 (no way to be told)
                await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def slow_request(self):
        """A request whose last byte is sent on demand, then returns the response."""
        body = json.dumps(QUESTION).encode()
        head = f"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        port = self.process.ports["extender"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body[:-1])
        await writer.drain()
        await self.filter()  # when this one is answered the other has arrived

        async def finish():
            writer.write(body[-1:])
            async with asyncio.timeout(PATIENCE):
                answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200 ")
            return json.loads(answer.partition(b"\r\n\r\n")[2])

        try:
            yield finish
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def filter(self, question=None):
        url = f"http://127.0.0.1:{self.process.ports['extender']}/scheduler/filter"
        async with self._session.post(url, json=question or QUESTION) as response:
            return response.status, await response.json()

    @contextlib.asynccontextmanager
    async def agent(self, value, node="node-a"):
        """A node's stream that reports one value in full for any subscription."""
        async with grpc.aio.insecure_channel(
            f"127.0.0.1:{self.process.ports['agents']}"
        ) as channel:
            stream = telemetry_pb2_grpc.TelemetryStub(channel).Stream()
            await stream.write(telemetry_pb2.Report(node_name=node))

            async def answer():
                async for asked in stream:
                    indices = range(len(asked.metrics))
                    report = telemetry_pb2.Report(
                        node_name=node,
                        generation=asked.generation,
                        full=True,
                        indices=indices,
                        values=[value] * len(indices),
                    )
                    await stream.write(report)

            answering = asyncio.create_task(answer())
            try:
                yield
            finally:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)


@pytest.fixture
async def world(api, evaluator, kubeconfig, tas, rule):
    await api.policies()
    await api.policy(
        tas(
            "demo",
            "default",
            dontschedule=[rule("health Equals 1")],
            deschedule=[rule("health Equals 1")],
        )
    )
    await api.node("node-a")
    async with aiohttp.ClientSession() as session:
        yield World(api, evaluator, kubeconfig, session)


async def test_reports_lead_to_answers_labels_and_status(world):
    await world.start(imported=False)
    assert (await world.get("/healthz"))[0] == 200
    status, text = await world.get("/readyz")
    assert status == 503
    assert text.startswith("waiting for ")
    assert (await world.filter())[0] == 503
    async with world.agent(1.0):
        await world.until_ready()
        status, reply = await world.filter()
        assert (status, reply["NodeNames"]) == (200, [])
        assert reply["FailedNodes"] == {"node-a": "violating demo: health Equals 1"}
        await world.api.seen(
            "/api/v1/nodes/node-a",
            lambda node: node["metadata"].get("labels", {}).get("demo") == "violating",
        )
        await world.api.seen(
            "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/demo",
            lambda policy: policy.get("status", {}).get("compliance") == "Violated",
        )
        _, text = await world.get("/explain/default/demo")
        assert json.loads(text)["nodes"]["node-a"]["readings"]["health"]["value"] == 1.0
        await world.process.said('msg="node-a violating demo: health Equals 1"')
        await world.process.said('msg="Filtered nodes for demo: none"')


@pytest.mark.features("scorers", "pages")
async def test_pod_is_kept_off_nodes_it_would_overload(world, tas):
    risky = {"metricname": "plimsoll_risk_cpu", "operator": "GreaterThan", "target": 0.3}
    await world.api.policy(tas("calm", "default", dontschedule=[risky], deschedule=[risky]))
    room = {"status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}}
    await world.api.merge("/api/v1/nodes/node-a/status", room)
    await world.start("--scorers=safe")

    def asks(cpu):
        return [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}]

    async def failed(cpu):
        labels = {"telemetry-policy": "calm"}
        meta = {"name": "web", "namespace": "default", "labels": labels}
        pod = {"metadata": meta, "spec": {"containers": asks(cpu)}}
        return (await world.filter({"Pod": pod, "NodeNames": ["node-a"]}))[1]["FailedNodes"]

    async with world.agent(0.5):  # cores: mean and deviation of the use
        await world.until_ready()
        assert await failed("1") == {}
        assert await failed("7") == {"node-a": "violating calm: plimsoll_risk_cpu GreaterThan 0.3"}
        await world.api.pod("large", "node-a", policy="", containers=asks("7"))
        async with asyncio.timeout(PATIENCE):
            # until the pod is observed, which nothing measures yet
            while not await failed("1"):  # noqa: ASYNC110 (no way to be told)
                await asyncio.sleep(0.01)
        _, text = await world.get("/explain/default/calm")
        assert json.loads(text)["problems"] == []


@pytest.mark.features("scorers", "status")
async def test_policy_on_a_scorer_metric_names_the_missing_flag(world, tas):
    risky = {"metricname": "plimsoll_risk_cpu", "operator": "GreaterThan", "target": 0.3}
    await world.api.policy(tas("calm", "default", dontschedule=[risky]))
    await world.start()
    async with world.agent(0.5):
        await world.until_ready()
        said = "start the evaluator with --scorers=safe"
        await world.api.seen(
            "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/calm",
            lambda policy: said in json.dumps(policy.get("status", {})),
        )


async def test_restart_after_a_kill_removes_no_label(world):
    await world.start()
    async with world.agent(1.0):
        await world.api.seen(
            "/api/v1/nodes/node-a", lambda node: "demo" in node["metadata"].get("labels", {})
        )
    version = (await world.api.get("/api/v1/nodes/node-a"))["metadata"]["resourceVersion"]
    await world.process.kill()
    await world.start()
    await world.process.said("msg=listening")
    status, text = await world.get("/readyz")
    assert status == 503, text
    async with world.agent(1.0):
        await world.until_ready()
        assert (await world.filter())[1]["NodeNames"] == []
    node = await world.api.get("/api/v1/nodes/node-a")
    assert node["metadata"]["resourceVersion"] == version, "not even a write without a change"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_signal_makes_readyz_fail_at_once_and_exits_with_status_0(world, number):
    await world.start()
    async with world.agent(0.0):
        await world.until_ready()
        async with world.slow_request() as finish:
            world.process.signal(number)
            await world.until_ready(503)
            assert (await finish())["FailedNodes"] == {}
        assert await world.process.ended() == 0
    assert any("msg=stopping" in line for line in world.process.lines)
    assert not any("Traceback" in line for line in world.process.lines)


async def test_ipv6_address_is_accepted(evaluator, kubeconfig):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")
    config = kubeconfig("http://127.0.0.1:1")
    process = await evaluator("--unsafe", "--kubeConfig", config, *LOOPBACK, "--bindAddress=::1")
    await process.listening()
    assert any("address=[::1]:" in line for line in process.lines)


async def test_signal_before_the_api_server_is_found_ends_the_process(evaluator, kubeconfig):
    config = kubeconfig("http://127.0.0.1:1")
    process = await evaluator("--unsafe", "--kubeConfig", config, *LOOPBACK)
    await process.listening()
    process.signal(signal.SIGTERM)
    assert await process.ended() == 0


def test_service_starts_without_the_modules_of_commands() -> None:
    code = "import sys, evaluator.main; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not [name for name in run.stdout.split() if name.startswith(("evaluator.tools.", "lab"))]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_page(name, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: plimsoll {name} ")


def test_the_help_lists_all_commands(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"(see plimsoll --help): {', '.join(COMMANDS)} Turn" in text


@pytest.fixture
def help_lines(capsys) -> list[str]:
    """The lines of --help."""
    with pytest.raises(SystemExit):
        main(["--help"])
    lines: list[str] = capsys.readouterr().out.splitlines()
    return lines


def headings(lines: list[str]) -> list[str]:
    """The titles of the groups of flags."""
    return [line.removesuffix(":") for line in lines if re.fullmatch(r"[A-Z].*:", line)]


def test_the_help_is_grouped_with_ports_and_sources_first_in_80_columns(help_lines) -> None:
    assert headings(help_lines)[:5] == [
        "The port of kube-scheduler",
        "The port of agents",
        "The operations port, and what all ports share",
        "Sources of readings",
        "The API server",
    ]
    assert [line for line in help_lines if len(line) > 80] == []
    flag = re.compile(r"^  --(?:\[no-\])?(\w[\w.]*)")
    listed = {name for line in help_lines for name in flag.findall(line)}
    assert {option.flag for _, option in flags.options(Settings)} <= listed


@pytest.mark.features("node_actions")
def test_flags_of_features_are_after_those_of_the_core(help_lines) -> None:
    found = headings(help_lines)
    assert found.index("Decisions") < found.index("Actions on nodes")
