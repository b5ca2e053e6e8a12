"""Rules in the running agent: on /metrics, over changed files and restarts."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import preloaded
from tests.patience import PATIENCE

RULES = """
groups:
- name: load
  interval: 1s
  rules:
  - {record: node_twice, expr: node_thing * 2}
  - {record: node_grown, expr: 'increase(node_events_total[1h])'}
  - {record: node_bad, expr: 'rate(node_thing)'}
"""


@dataclass
class Agent:
    """A running agent on a folder of text files and rules."""

    program: preloaded.Blocking
    address: str

    def get(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=PATIENCE) as reply:
            text: str = reply.read().decode()
            return text

    def shows(self, *lines: str) -> str:
        """Wait until the metrics have all of these lines and return them."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.get()
            if set(lines) <= set(found.splitlines()):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.02)

    def stop(self) -> None:
        self.program.send_signal(signal.SIGTERM)
        assert self.program.wait(PATIENCE) == 0


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., Agent]]:
    started: list[preloaded.Blocking] = []

    def run(*argv: str) -> Agent:
        log = tmp_path / f"log{len(started)}"
        with log.open("w") as stderr:
            program = preloaded.start_blocking(
                [
                    *(sys.executable, "-P", "-m", "agent", "--web.listen-address=127.0.0.1:0"),
                    *("--collector.disable-defaults", "--collector.textfile"),
                    f"--collector.textfile.directory={tmp_path}",
                    f"--rules.file={tmp_path}/*.yaml",
                    *argv,
                ],
                os.environ,
                stderr=stderr,
            )
        started.append(program)
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(r"msg=listening address=(\S+)", log.read_text())):
            assert program.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return Agent(program, found.group(1))

    yield run
    for program in started:
        program.kill()
        program.wait()


@pytest.fixture
def write(tmp_path) -> Callable[[str, str], None]:
    """Write a file atomically."""

    def put(name: str, text: str) -> None:
        aside = tmp_path / f"{name}.tmp"
        aside.write_text(text)
        aside.rename(tmp_path / name)

    return put


def test_recorded_series_are_on_metrics_and_follow_sources_and_rules(
    start, write, tmp_path
) -> None:
    write("r.yaml", RULES)
    write("a.prom", "node_thing 3\n")
    agent = start()
    found = agent.shows(
        "node_twice 6",
        "# HELP node_twice Recorded by a rule: node_thing * 2",
        "# TYPE node_twice gauge",
        'plimsoll_rule_error{group="load",rule="node_bad",reason="type"} 1',
    )
    names = [line.split()[2] for line in found.splitlines() if line.startswith("# TYPE")]
    assert names == sorted(set(names))
    filtered = agent.get("/metrics?collect[]=textfile")
    assert "node_thing 3\n" in filtered
    assert "node_twice" not in filtered

    write("a.prom", "node_thing 4\n")
    agent.shows("node_twice 8")

    write("a.prom", "node_thing 4\nnode_twice 1\n")  # an operator's value overrides it
    assert agent.shows("node_twice 1").count("\nnode_twice") == 1
    write("a.prom", "node_thing 4\n")
    agent.shows("node_twice 8")

    write("r.yaml", RULES.replace("* 2", "* 5"))
    agent.shows("node_twice 20")
    write("r.yaml", "groups: [")
    path = tmp_path / "r.yaml"
    agent.shows("node_twice 20", f'plimsoll_rule_file_error{{file="{path}",reason="syntax"}} 1')
    agent.stop()


def test_long_ranges_survive_a_restart(start, write, tmp_path) -> None:
    write("r.yaml", RULES)
    write("a.prom", "node_thing 1\n# TYPE node_events_total counter\nnode_events_total 100\n")
    state = f"--rules.state-file={tmp_path}/state"
    agent = start(state)
    agent.shows("node_grown 0", "node_twice 2")
    agent.stop()
    assert (tmp_path / "state").stat().st_size < 10_000
    write("a.prom", "node_thing 2\n# TYPE node_events_total counter\nnode_events_total 150\n")
    agent = start(state)
    found = agent.shows("node_twice 4")
    (grown,) = re.findall(r"^node_grown (\S+)$", found, re.MULTILINE)
    assert float(grown) >= 50
    agent.stop()
    (tmp_path / "state").write_bytes(b"anything")
    agent = start(state)
    agent.shows("node_grown 0")


def loaded(*modules: str) -> set[str]:
    """All modules loaded by importing these."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys, {', '.join(modules)}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    return set(done.stdout.split())


def test_agent_without_rules_imports_no_rule_modules() -> None:
    modules = loaded("agent.main", "agent.stream.client")
    assert "agent.rules.options" in modules
    rules = {m for m in modules if m.startswith("agent.rules.")} - {"agent.rules.options"}
    assert rules | ({"yaml", "promql_parser"} & modules) == set()


def test_agent_with_rules_and_no_evaluator_imports_no_stream_modules() -> None:
    modules = loaded("agent.main", "agent.rules.engine", "agent.rules.state_file")
    assert {"grpc", "google", "wire.codec", "wire.telemetry_pb2"} & modules == set()
