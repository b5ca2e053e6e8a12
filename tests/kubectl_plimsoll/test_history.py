"""`history`, `top` and `--watch`: what they request, and what they print."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubectl_plimsoll import history
from kubectl_plimsoll import main as cli
from kubectl_plimsoll.table import Style

RECORDS = [
    {
        "number": 3,
        "at": "2020-11-20T09:15:04.250Z",
        "kind": "evicted",
        "policy": "ns/demo",
        "mode": "enforce",
        "node": "node-a",
        "pod": "ns/web",
        "text": "m GreaterThan 5",
    },
    {
        "number": 2,
        "at": "2020-11-20T09:15:03.000Z",
        "kind": "violated",
        "strategy": "dontschedule",
        "was": "clear",
        "why": "first",
        "policy": "ns/demo",
        "mode": "observe",
        "node": "node-a",
        "rule": "m_bytes GreaterThan 64Gi",
        "metric": "m_bytes",
        "limit": 68719476736.0,
        "reading": 22867496960.0,
    },
    {"number": 1, "at": "2020-11-20T09:15:01Z", "kind": "leader", "text": "\x1b[31mreplica"},
]
PAGE = {
    "recorder": "r1",
    "newest": 3,
    "completeSince": "2020-11-20T09:00:00Z",
    "window": {"found": 5},
    "records": RECORDS,
}
TOP = {
    "timeline": {
        "since": "2020-11-20T08:15:00Z",
        "until": "2020-11-20T09:15:00Z",
        "columns": 240,
        "rowsMore": 2,
        "rows": [
            {
                "name": "node-a",
                "now": "violated",
                "transitions": 3,
                "violatedShare": 0.5,
                "runs": [[0, 8, "pending"], [120, 120, "violated"]],
            }
        ],
    }
}


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A program in kubectl's place that writes its arguments to a file, and prints a page."""
    program, log = tmp_path / "kubectl", tmp_path / "log"

    def answers(page):
        (tmp_path / "page").write_text(json.dumps(page))
        program.write_text(f'#!/bin/sh\necho "$*" >> {log}\ncat {tmp_path}/page\n')
        program.chmod(0o755)
        return log

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TZ", "UTC")
    return answers


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["history"], "/history.json"),
        (["history", "-n", "shop"], "/history/shop.json"),
        (["history", "node", "node-a"], "/history.json?node=node-a"),
        (["history", "no/node-a", "--since", "30m"], "/history.json?node=node-a&since=30m"),
        (["history", "policy", "web", "-n", "shop"], "/history/shop/web.json"),
        (["history", "tas/shop/web", "--kind=evicted"], "/history/shop/web.json?kind=evicted"),
        (["history", "pod", "shop/web"], "/history/shop.json?pod=shop/web"),
        (["top", "--since", "2h"], "/history.json?since=2h&by=node"),
    ],
)
def test_each_object_has_the_path_that_its_permission_names(kubectl, capsys, words, where):
    log = kubectl({})
    assert cli.main([*words, "-o", "json"]) == 0
    assert log.read_text().rstrip().endswith(f"proxy{where}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["history", "gang", "x"], "history takes one of policy, node, pod and a name, not gang"),
        (["history", "node"], "history takes one of policy, node, pod and a name, not node"),
        (["status", "-w"], "--watch is for history and top"),
    ],
)
def test_mistake_is_one_sentence(capsys, words, says):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_records_are_printed_oldest_first_with_units_and_without_terminal_controls():
    lines = [" ".join(line.split()) for line in history.history(PAGE, Style(), wide=False)]
    assert lines[0] == "TIME WHAT POLICY OBJECT WHY"
    assert lines[1].endswith("leader - - \\u001b[31mreplica")
    assert lines[2].endswith(
        "violated (dontschedule) ns/demo (observed) node node-a m_bytes GreaterThan 64Gi: 21.3 GiB (first)"
    )
    assert lines[3].endswith("evicted ns/demo pod ns/web node node-a m GreaterThan 5")
    assert lines[4] == "and 2 older records: --since and --kind select some"


def test_top_draws_the_interval():
    _head, row, more = history.top(TOP, Style(), wide=False)
    assert row.split("[")[0].split() == ["node-a", "violated", "3", "50%"]
    assert row.split("[")[1] == "." + " " * 14 + "#" * 15 + "]"
    assert more == "and 2 more nodes"


def test_watch_prints_new_records_only_until_interrupted(kubectl, tmp_path):
    log = kubectl(PAGE)
    # Jobs in the background of a shell ignore SIGINT, and pass that on.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from kubectl_plimsoll.main import main; sys.exit(main(['history', '-w']))"
    )
    command = [sys.executable, "-P", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            first = [running.stdout.readline() for _ in range(5)]
            assert "TIME" in first[0]
            new = {**RECORDS[0], "number": 4, "kind": "requeued"}
            kubectl({**PAGE, "newest": 4, "records": [new], "window": {"found": 1}})
            assert "requeued" in running.stdout.readline()
        finally:
            running.send_signal(signal.SIGINT)
            running.communicate()
    assert running.returncode == 0
    assert "after=3" in log.read_text()


def test_plugins_of_k9s_run_commands_that_exist():
    """Names are arguments, not parts of the shell's script: they could be any text."""
    text = (Path(__file__).parents[2] / "examples/k9s-plugins.yaml").read_text()
    for plugin in yaml.safe_load(text)["plugins"].values():
        script, *values = plugin["args"][1:]
        assert "$NAME" not in script
        words = script.removeprefix("kubectl plimsoll ").split(" | ")[0]
        for number, value in enumerate(values[1:], start=1):
            words = words.replace(f'"${number}"', value.removeprefix("$").lower())
        given = cli.parser().parse_intermixed_args(words.split())
        assert given.words[0] in cli.COMMANDS
        assert given.words[-1] == "name"


def test_watch_ends_quietly_with_its_reader(kubectl):
    kubectl({**PAGE, "window": {"found": 3}})
    command = [sys.executable, "-P", "-m", "kubectl_plimsoll", "history", "-w"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_violation_names_its_device():
    page = {**PAGE, "records": [{**RECORDS[1], "cause": "gpu: UUID=GPU-1\x1b"}]}
    *_, line, _older = history.history(page, Style(), wide=False)
    assert "m_bytes GreaterThan 64Gi: 21.3 GiB (gpu: UUID=GPU-1\\u001b) (first)" in line


def test_label_is_no_fault():
    def shown(strategy):
        page = {**PAGE, "records": [{**RECORDS[1], "strategy": strategy}]}
        return list(history.history(page, Style(coloured=True), wide=False))[1]

    assert "holds (labeling)" in shown("labeling")
    assert "\x1b[31mviolated (dontschedule)" in shown("dontschedule")
    assert "\x1b[3" not in shown("labeling")


def test_absent_actions_are_said_with_since_when_and_why():
    problem = "actions are not read: 403 secrets is forbidden"
    actions = {
        "since": "2023-11-14T22:00:00Z",
        "leftOut": 3,
        "problem": problem,
        "problemSince": "2023-11-14T23:00:00Z",
    }
    page = {"completeSince": "2023-11-14T22:00:00Z", "actions": actions, "records": []}
    lines = [*history.history(page, Style(), wide=False)]
    assert lines[1].endswith(f", {problem}")
    assert lines[2].startswith("3 actions before ")
    record = {"at": "2023-11-14T22:00:00Z", "kind": "leader", "text": "a leads"}
    shown = [*history.history({**page, "records": [record]}, Style(), wide=False)]
    assert shown[-2:] == lines[1:]
