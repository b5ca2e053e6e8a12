"""The agent as a process: start, log and exit."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tests import preloaded
from tests.patience import PATIENCE

Start = Callable[..., "preloaded.Blocking | subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start agents; they end with the test. `imported`: as forks of a process that has imported them."""
    started: list[preloaded.Blocking | subprocess.Popen[str]] = []

    def run(
        *argv: str, env: dict[str, str] | None = None, imported: bool = True
    ) -> preloaded.Blocking | subprocess.Popen[str]:
        command = (sys.executable, "-P", "-m", "agent", *argv)
        environment, pipe = {**os.environ, **(env or {})}, subprocess.PIPE
        if imported:
            started.append(preloaded.start_blocking(command, environment, stderr=pipe))
        else:
            started.append(subprocess.Popen(command, env=environment, stderr=pipe, text=True))
        return started[-1]

    yield run
    for program in started:
        program.kill()
        program.communicate()


def log_until(program: "preloaded.Blocking | subprocess.Popen[str]", pattern: str) -> re.Match[str]:
    """Read the program's log up to a matching line."""
    assert program.stderr is not None
    seen = []
    for line in program.stderr:
        if match := re.search(pattern, line):
            return match
        seen.append(line)
    raise AssertionError(f"no line like {pattern!r} in: {''.join(seen)}")


def listening(program: "preloaded.Blocking | subprocess.Popen[str]") -> str:
    return log_until(program, r"msg=listening address=(\S+)").group(1)


def get(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as reply:
        text: str = reply.read().decode()
        return text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_agent_serves_until_a_signal_and_exits_with_status_0(
    start: Start, number: signal.Signals
) -> None:
    program = start(
        *("--web.listen-address=127.0.0.1:0", "--collector.synthetic"),
        env={"NODE_NAME": "node-a"},
        imported=number == signal.SIGINT,
    )
    address = listening(program)
    assert "node_synthetic_9 " in get(address, "/metrics")
    assert "node-a" in get(address, "/")
    program.send_signal(number)
    assert program.wait(PATIENCE) == 0


def test_flags_only_node_exporter_has_give_one_warning(start: Start) -> None:
    flags = ("--no-collector.megacli", "--collector.boottime", "--runtime.gomaxprocs")
    quiet = ("--web.listen-address=127.0.0.1:0", "--collector.disable-defaults")
    program = start(*quiet, *flags, "1")
    warning = log_until(
        program, r'level=warn.*msg="ignoring flags of node_exporter that have no effect.*'
    )
    assert f'flags="{" ".join(flags)}"' in warning.group()
    assert listening(program)


def test_agent_becomes_ready(start: Start) -> None:
    wait_ready(listening(start("--web.listen-address=127.0.0.1:0", "--collector.disable-defaults")))


def wait_ready(address: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while (status := readiness(address)) != 200:
        assert status == 503
        assert time.monotonic() < deadline


def readiness(address: str) -> int:
    try:
        get(address, "/readyz")
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    return 200


def test_address_in_use_is_one_sentence_and_status_1(start: Start) -> None:
    address = listening(start("--web.listen-address=127.0.0.1:0"))
    second = start(f"--web.listen-address={address}")
    _, said = second.communicate(timeout=PATIENCE)
    assert second.returncode == 1
    assert f'reason="cannot listen on {address}: ' in said
    assert "Traceback" not in said


def test_invalid_flag_is_one_sentence_and_status_2(start: Start) -> None:
    program = start("--web.listen-address=nowhere", imported=False)
    _, said = program.communicate(timeout=PATIENCE)
    assert program.returncode == 2
    assert said.startswith("plimsoll-agent: --web.listen-address: not an address: 'nowhere'")
    assert said.count("\n") == 1


def test_node_files_are_served_as_metrics(start: Start, xeon, tmp_path) -> None:
    (tmp_path / "text.prom").write_text("node_health_metric 2\n")
    program = start(
        "--web.listen-address=127.0.0.1:0",
        f"--path.procfs={xeon.procfs}",
        f"--path.sysfs={xeon.sysfs}",
        f"--collector.textfile.directory={tmp_path}",
        "--web.disable-exporter-metrics",
        "--log.format=json",
    )
    address = log_until(program, r'"address": "(\S+)"').group(1)
    metrics = get(address, "/metrics")
    assert "node_health_metric 2\n" in metrics
    assert "node_load1 3.42\n" in metrics
    assert "process_" not in metrics
    assert 'node_scrape_collector_success{collector="pressure"} 1' in metrics


def test_agent_serves_over_tls_with_a_web_config(
    start: Start, authority, server_pair, tmp_path
) -> None:
    config = tmp_path / "web.yml"
    config.write_text(
        f"tls_server_config: {{cert_file: {server_pair[0]}, key_file: {server_pair[1]}}}"
    )
    program = start("--web.listen-address=127.0.0.1:0", f"--web.config.file={config}")
    address = listening(program)
    with urllib.request.urlopen(
        f"https://{address}/metrics", timeout=PATIENCE, context=authority.client()
    ) as reply:
        assert b"node_load1 " in reply.read()


def test_invalid_web_config_is_one_sentence_and_status_1(start: Start, tmp_path) -> None:
    config = tmp_path / "web.yml"
    config.write_text("tls_config: {}")
    program = start("--web.listen-address=127.0.0.1:0", f"--web.config.file={config}")
    _, said = program.communicate(timeout=PATIENCE)
    assert program.returncode == 1
    assert f'reason="{config}: unknown field tls_config"' in said
    assert "Traceback" not in said


def test_hanging_collector_delays_neither_scrapes_nor_shutdown(
    start: Start, xeon, tmp_path
) -> None:
    (tmp_path / "meminfo").write_bytes((xeon.procfs / "meminfo").read_bytes())
    os.mkfifo(tmp_path / "loadavg")  # opening it waits for a writer
    program = start(
        "--web.listen-address=127.0.0.1:0",
        f"--path.procfs={tmp_path}",
        *("--collector.disable-defaults", "--collector.loadavg", "--collector.meminfo"),
        "--collector.timeout=2s",
    )
    address = listening(program)
    for _ in range(3):
        metrics = get(address, "/metrics")
        assert 'node_scrape_collector_success{collector="loadavg"} 0\n' in metrics
        assert 'node_scrape_collector_success{collector="meminfo"} 1\n' in metrics
    wait_ready(address)
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0


def test_scrape_only_agent_stays_small() -> None:
    """gRPC is for streaming; the Kubernetes client, numpy and aiohttp belong to other programs.

    Modules of the standard library that take a megabyte each are imported only where they are needed.
    """
    # rich, of development tools, is imported by structlog if it is installed.
    code = "import sys; sys.modules['rich'] = None; import agent.main; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert {"grpc", "kubernetes", "numpy", "aiohttp", "google"}.isdisjoint(loaded)
    assert {"email.message", "zipfile", "html", "difflib", "tempfile", "bcrypt"}.isdisjoint(loaded)
    assert {"importlib.metadata", "agent.web.guard"}.isdisjoint(loaded)
    assert {"jinja2", "agent.scrape.landing", "plimsoll.html"}.isdisjoint(loaded)


def test_streaming_agent_imports_only_what_it_needs() -> None:
    code = "import sys, agent.main, agent.stream.client; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert {"kubernetes", "numpy", "aiohttp"}.isdisjoint(loaded.stdout.split())
