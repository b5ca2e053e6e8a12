"""`plimsoll eval` as a program, over fixture machines and recorded files."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.interface.host import Host
from tests.agent.eval.program import run as run_forked
from tests.patience import PATIENCE

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PROGRAM = (sys.executable, "-P", "-m", "agent", "eval")
STAMP = r" @\[\d{10}(\.\d{1,3})?\]"

HISTORY = """\
# TYPE work counter
work_total{cpu="0"} 10 1700000000
work_total{cpu="1"} 5 1700000000
work_total{cpu="0"} 40 1700000030
work_total{cpu="1"} 20 1700000030
work_total{cpu="0"} 70 1700000060.5
# EOF
"""


@pytest.fixture
def run(xeon: Host, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the command to its end on a machine that does not change."""

    def run(*argv: str, text: str = "") -> "subprocess.CompletedProcess[str]":
        return run_forked(tmp_path_factory.mktemp("eval"), [*flags_of(xeon), *argv], text)

    return run


def flags_of(host: Host) -> tuple[str, ...]:
    return (
        f"--path.procfs={host.procfs}",
        f"--path.sysfs={host.sysfs}",
        f"--path.rootfs={host.rootfs}",
        f"--path.udev.data={host.udev}",
    )


def unstamped(text: str) -> list[str]:
    """Lines without their timestamps, each of which must have one."""
    lines = text.splitlines()
    assert all(re.search(STAMP + "$", line) for line in lines), text
    return [re.sub(STAMP, "", line) for line in lines]


def test_vector_is_printed_as_by_prometheus(run: Run) -> None:
    done = run("node_load1")
    assert unstamped(done.stdout) == ["node_load1 => 3.42"]
    assert (done.stderr, done.returncode) == ("", 0)


def test_labels_are_kept_and_sorted(run: Run) -> None:
    done = run('count by (mode, cpu) (node_cpu_seconds_total{cpu=~"[01]", mode=~"user|idle"})')
    assert unstamped(done.stdout) == [
        '{cpu="0", mode="idle"} => 1',
        '{cpu="0", mode="user"} => 1',
        '{cpu="1", mode="idle"} => 1',
        '{cpu="1", mode="user"} => 1',
    ]


def test_scalars_and_strings_are_printed(run: Run) -> None:
    assert unstamped(run("1 / 3").stdout) == ["scalar: 0.3333333333333333"]
    assert run('"words"').stdout == "words\n"


def test_textfiles_are_read_as_by_the_agent(run: Run, tmp_path: Path) -> None:
    (tmp_path / "health.prom").write_text("node_health_metric 2\n")
    done = run("node_health_metric", f"--collector.textfile.directory={tmp_path}")
    assert unstamped(done.stdout) == ["node_health_metric => 2"]


def test_only_collectors_of_the_expression_run(run: Run) -> None:
    """Of a machine with only this source: no other collector reports an error."""
    done = run("node_load1", "--log.level=debug")
    assert unstamped(done.stdout) == ["node_load1 => 3.42"]
    assert "collector=" not in done.stderr


def test_recorded_series_can_be_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "groups:\n"
        "- {name: later, rules: [{record: node_quadruple, expr: 2 * node_double}]}\n"
        "- {name: first, rules: [{record: node_double, expr: 2 * node_load1, labels: {a: b}}]}\n"
        "- {name: other, rules: [{record: node_never, expr: 'rate(node_load1[1d])'}]}\n"
    )
    done = run("node_quadruple", f"--rules.file={tmp_path}/*.yaml")
    assert unstamped(done.stdout) == ['node_quadruple{a="b"} => 13.68']
    assert (done.stderr, done.returncode) == ("", 0)


def test_rules_look_back_as_far_as_they_need(run: Run, tmp_path: Path) -> None:
    rule = "{record: node_seen, expr: 'count_over_time(node_load1[1s])'}"
    (tmp_path / "a.yaml").write_text(f"groups: [{{name: a, rules: [{rule}]}}]")
    done = run("sum_over_time(node_seen[1s])", f"--rules.file={tmp_path}/a.yaml")
    assert unstamped(done.stdout) == ["{} => 1"]
    assert done.stderr == "the expression looks back: sampling each second for 2s\n"


def test_invalid_rules_are_reported(run: Run, tmp_path: Path) -> None:
    many = "{record: node_many, expr: node_load1 * on () node_cpu_seconds_total}"
    odd = "{record: node_odd, expr: 'mad_over_time(a[1m])'}"
    (tmp_path / "a.yaml").write_text(f"groups: [{{name: a, rules: [{many}, {odd}]}}]")
    done = run("node_many", f"--rules.file={tmp_path}/a.yaml")
    assert done.stdout == ""
    left_out, failed, *_ = done.stderr.splitlines()
    assert left_out.startswith(
        "rule node_odd of a is skipped: line 1, column 123: the function mad_over_time()"
    )
    assert failed.startswith("rule node_many of a: found duplicate series")


def test_expression_with_a_range_is_sampled_for_its_length(run: Run) -> None:
    done = run("count_over_time(node_load1[1s])")
    assert unstamped(done.stdout) == ["{} => 1"]
    assert done.stderr == "the expression looks back: sampling each second for 1s\n"


def test_long_ranges_are_not_sampled_whole_by_default(run: Run) -> None:
    done = run("count_over_time(node_load1[24h])", "--for=1s")
    assert unstamped(done.stdout) == ["{} => 2"]
    assert (
        done.stderr
        == "the expression looks back: sampling each second for 1s of 24h (use --for to sample longer)\n"
    )


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("sum(node_load1", "parse error: unclosed left parenthesis"),
        ("limitk(1, node_load1)", "limitk"),
        ("node_load1[5m]", "type error: the result is a range vector"),
    ],
)
def test_invalid_expression_is_reported_in_one_line(run: Run, expression: str, says: str) -> None:
    done = run("--", expression)
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr.startswith("plimsoll eval: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_failed_evaluation_exits_with_status_1(run: Run) -> None:
    done = run("node_load1 + on() node_cpu_seconds_total")
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr.startswith("plimsoll eval: ")


def test_empty_result_is_explained(run: Run) -> None:
    done = run("load1")
    assert (done.stdout, done.returncode) == ("", 0)
    assert done.stderr == "no series load1; this machine has: node_load1, node_load15, node_load5\n"


def test_missing_input_of_a_rule_is_named(run: Run, tmp_path: Path) -> None:
    rule = "groups: [{name: g, rules: [{record: derived, expr: 'load_1 + node_load5'}]}]"
    (tmp_path / "rules.yaml").write_text(rule)
    done = run("derived", f"--rules.file={tmp_path / 'rules.yaml'}")
    assert (done.stdout, done.returncode) == ("", 0)
    assert "derived is recorded by a rule, and these inputs of it are missing:\n" in done.stderr
    assert "  no series load_1" in done.stderr
    assert "no series node_load5" not in done.stderr


def test_disabled_collector_of_a_metric_is_named(run: Run) -> None:
    done = run("node_interrupts_total")
    assert (
        "collector interrupts, which is disabled: enable it with --collector.interrupts\n"
        in done.stderr
    )
    assert run("count(node_interrupts_total)", "--collector.interrupts").stdout != ""


def test_unreadable_source_exits_with_status_1(run: Run, tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("what?\n")
    done = run("node_load1", f"--path.procfs={tmp_path}")
    assert (done.stdout, done.returncode) == ("", 1)
    assert "collectors failed: loadavg" in done.stderr


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        ("count_over_time(work_total[1m])", ['{cpu="0"} => 2', '{cpu="1"} => 1']),
        ("work_total offset 1m", ['work_total{cpu="0"} => 10', 'work_total{cpu="1"} => 5']),
    ],
)
def test_recorded_history_is_evaluated_at_its_end(
    run: Run, tmp_path: Path, expression: str, printed: list[str]
) -> None:
    (tmp_path / "history").write_text(HISTORY)
    done = run(expression, f"--at={tmp_path / 'history'}")
    assert done.stdout.splitlines() == [f"{line} @[1700000060.5]" for line in printed]
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(("interval", "steps"), [("5s", 12), ("10s", 6), ("30s", 2)])
def test_subqueries_on_a_file_step_by_the_rules_interval(
    run: Run, tmp_path: Path, interval: str, steps: int
) -> None:
    (tmp_path / "history").write_text("a 1 1700000000\na 2 1700000030\na 3 1700000060\n# EOF\n")
    done = run(
        "count_over_time(a[1m:])", f"--at={tmp_path / 'history'}", f"--rules.interval={interval}"
    )
    assert (unstamped(done.stdout), done.stderr) == ([f"{{}} => {steps}"], "")


def test_file_without_timestamps_has_its_modification_time(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.prom"
    file.write_text("a 1\n")
    os.utime(file, (1_600_000_000.5, 1_600_000_000.5))
    assert run("time() - a", f"--at={file}").stdout == "{} => 1599999999.5 @[1600000000.5]\n"


def test_standard_input_is_evaluated(run: Run) -> None:
    assert run("work_total > 20", "--at", "-", text=HISTORY).stdout == (
        'work_total{cpu="0"} => 70 @[1700000060.5]\n'
    )
    done = run("work", "--at=-", text=HISTORY)
    assert (done.stderr, done.returncode) == ("no series work on it\n", 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"<html>\n", "line 1: not a sample: '<html>'"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_invalid_exposition_is_reported(
    run: Run, tmp_path: Path, text: bytes | None, says: str
) -> None:
    file = tmp_path / "a.prom"
    if text is not None:
        file.write_bytes(text)
    done = run("a", f"--at={file}")
    assert (done.stdout, done.returncode) == ("", 1)
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_exclusive_flags_are_reported(run: Run) -> None:
    done = run("a", "--at=x", "--watch")
    assert (done.stdout, done.returncode) == ("", 2)
    assert "--watch" in done.stderr


def test_help_has_examples(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "plimsoll eval 'node_load1'" in done.stdout
    assert "--collector.arp" not in done.stdout


@pytest.fixture
def watching(xeon: Host) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str, **more: int) -> "subprocess.Popen[str]":
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        command = [*PROGRAM, *flags_of(xeon), *argv]
        program = subprocess.Popen(command, text=True, **options)  # type: ignore[call-overload]
        started.append(program)
        return program  # type: ignore[no-any-return]

    yield start
    for program in started:
        program.kill()
        program.communicate()


def test_watching_continues_until_ctrl_c(watching: Callable[..., "subprocess.Popen[str]"]) -> None:
    program = watching("count_over_time(node_load1[1h])", "--watch")
    assert program.stdout is not None
    assert unstamped(program.stdout.readline()) == ["{} => 1"]
    assert unstamped(program.stdout.readline()) == ["{} => 2"]
    program.send_signal(signal.SIGINT)
    assert program.wait(PATIENCE) == 130
    assert program.stderr is not None
    assert program.stderr.read() == ""


def test_closed_reader_ends_watching(watching: Callable[..., "subprocess.Popen[str]"]) -> None:
    program = watching("node_load1", "--watch")
    assert program.stdout is not None
    program.stdout.readline()
    program.stdout.close()
    assert program.wait(PATIENCE) == -signal.SIGPIPE
    program.stdout = None


def test_terminal_shows_the_progress(watching: Callable[..., "subprocess.Popen[str]"]) -> None:
    ours, theirs = pty.openpty()
    program = watching("node_load1 offset 1s", "--for=1s", stderr=theirs)
    assert program.wait(PATIENCE) == 0
    os.close(theirs)
    seen = os.read(ours, 4096).decode()
    os.close(ours)
    assert "0 of 1 s" in seen
    assert seen.endswith("\r\x1b[K")
