"""Rules that never end or exhaust memory are stopped and reported; everything else continues."""

import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import preloaded
from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e

LIMIT = 192 << 20
"""Bytes: the memory limit of the DaemonSet."""
SERIES = 1000

A = "a" * 1000
LONG = "x" * 900


def nested(call, text, depth):
    for level in range(depth):
        text = call(text, level)
    return text


def replaced(text, level):
    source = f"l{min(level, 3) - 1}" if level else "n"
    return f'label_replace({text},"l{level}","{LONG}$1","{source}","(.*)")'


def joined(text, level):
    source = f"l{min(level, 3) - 1}" if level else "n"
    return f'label_join({text},"l{level}","{LONG}","kind","{source}")'


def balanced(depth):
    return f"({balanced(depth - 1)}+{balanced(depth - 1)})" if depth else "vector(1)"


BACKTRACKING = (
    f'label_replace(label_replace(vector(1),"a","{A}","",""),"b","x","a",".*a.*a.*a.*a.*b")'
)
STEPS = f"max_over_time({balanced(7)}[10999s:1s])"
ATTACKS = {
    "a pattern that backtracks": ([BACKTRACKING], ""),
    "a subquery of 11,000 steps": ([STEPS], "timeout"),
    "nested label_replace": ([nested(replaced, "node_many", 18)], "memory"),
    "nested label_join": ([nested(joined, "node_many", 18)], "memory"),
    "many rules that copy all series": (["node_many"] * 300, "memory"),
}


@dataclass
class Agent:
    program: preloaded.Blocking
    address: str

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=PATIENCE) as reply:
            return reply.read().decode()

    def until(self, condition):
        """Poll until the metrics satisfy the condition; return its value."""
        deadline = time.monotonic() + PATIENCE
        while not (found := condition(self.metrics())):
            assert self.program.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return found

    @property
    def peak(self):
        status = Path(f"/proc/{self.program.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


@pytest.fixture
def agent(tmp_path):
    started = []

    def start(expressions, series=SERIES, rules=_rules):
        many = (f'node_many{{n="{i}",device="eth{i}",kind="abc"}} {i}\n' for i in range(series))
        (tmp_path / "many.prom").write_text("".join(many))
        (tmp_path / "rules.yaml").write_text(rules(expressions))
        log = tmp_path / "log"
        flags = [
            *(
                "--web.listen-address=127.0.0.1:0",
                "--collector.disable-defaults",
                "--collector.textfile",
            ),
            *(f"--collector.textfile.directory={tmp_path}", f"--rules.file={tmp_path}/rules.yaml"),
        ]
        with log.open("w") as stderr:
            command = (sys.executable, "-P", "-m", "agent", *flags)
            program = subprocess.Popen(command, stderr=stderr)  # a fork of a test has its memory
        started.append(program)
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(r"msg=listening address=(\S+)", log.read_text())):
            assert program.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return Agent(program, found[1])

    yield start
    for program in started:
        program.kill()
        program.wait()


def _rules(expressions):
    bad = "".join(f"  - record: bad{i}\n    expr: {e}\n" for i, e in enumerate(expressions))
    good = "- name: good\n  interval: 1s\n  rules:\n  - {record: good, expr: vector(1)}\n"
    return f"groups:\n- name: bad\n  interval: 1s\n  rules:\n{bad}{good}"


def _groups(expressions):
    bad = "".join(
        f"- name: bad{i}\n  interval: 1s\n  rules:\n  - record: bad{i}\n    expr: {e}\n"
        for i, e in enumerate(expressions)
    )
    good = "- name: good\n  interval: 1s\n  rules:\n  - {record: good, expr: vector(1)}\n"
    return f"groups:\n{bad}{good}"


def continues(running, times):
    """Wait for successive evaluations of the group `good`, each with its result, which is exported for three seconds only."""
    pattern = r'plimsoll_rule_group_last_evaluation_timestamp_seconds\{group="good"\} (\S+)'
    seen = set()

    def found(text):
        if "\ngood 1\n" in text:
            seen.add(re.search(pattern, text)[1])
        return len(seen) == times

    running.until(found)


@pytest.mark.parametrize("name", ATTACKS)
def test_costly_rule_is_stopped_while_other_groups_and_metrics_continue(agent, name):
    expressions, reason = ATTACKS[name]
    running = agent(expressions)
    if reason:
        running.until(lambda text: re.search(rf'rule_error\{{.*reason="{reason}"\}} 1', text))
    continues(running, times=3)
    assert running.peak < LIMIT


def test_sigterm_ends_an_agent_during_a_subquery(agent):
    running = agent([STEPS])
    running.until(lambda text: "plimsoll_rule_group_rules" in text)
    running.program.send_signal(signal.SIGTERM)
    assert running.program.wait(PATIENCE) == 0


def test_groups_over_the_same_series_share_them_within_the_memory_limit(agent):
    expressions = [f'sum(rate(node_many{{n!="{i}"}}[1m]))' for i in range(30)]
    running = agent(expressions, series=15_000, rules=_groups)
    failing = r'rule_error\{group="bad\d+",rule="bad\d+",reason="memory"\} 1'
    running.until(lambda text: re.search(failing, text))
    continues(running, times=4)
    # Some groups have results beside the samples that all of them need.
    running.until(lambda text: re.search(r"\nbad\d+ \S+\n", text))
    text = running.metrics()
    taken = re.findall(r"plimsoll_rule_group_memory_bytes\{.*\} (\S+)", text)
    assert sum(map(float, taken)) <= 32 << 20
    assert running.peak < LIMIT
