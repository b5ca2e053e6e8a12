"""Files named on the command line: no FIFO, no device, no megabytes of YAML."""

import asyncio
import os
import sys
from dataclasses import dataclass

import pytest

from tests import preloaded

pytestmark = pytest.mark.e2e

WATCHDOG = 60


POLICY = """
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: p, namespace: default}
spec: {strategies: {dontschedule: {rules: [{metricname: load1, operator: GreaterThan, target: 6}]}}}
"""
SAMPLES = "".join(f'load1{{node="a"}} 1 {1_763_164_800 + 60 * minute}\n' for minute in range(10))
"""Ten minutes of one node."""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def run(*command, text=""):
    """Run a program to its end, as a fork of one that has imported it."""

    async def within():
        async with asyncio.timeout(WATCHDOG):
            argv = (sys.executable, "-P", "-m", *map(str, command))
            return await preloaded.run(argv, text=text)

    return Done(*asyncio.run(within()))


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "dump.om"
    path.write_text(SAMPLES)
    return path


@pytest.fixture(params=["fifo", "device"])
def endless(request, tmp_path):
    """A file that no read ends."""
    path = tmp_path / "endless.yaml"
    if request.param == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


def assert_refused(done):
    assert done.returncode in (1, 2)
    assert "not a regular file" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["check", "test"])
def test_file_that_never_ends_is_refused(endless, program):
    found = run("evaluator", program, endless)
    assert_refused(found)
    assert "pipe it to a command that reads -" in found.stdout + found.stderr


@pytest.mark.parametrize("program", ["check", "test"])
def test_large_file_is_refused(tmp_path, program):
    path = tmp_path / "large.yaml"
    path.write_text("a: b\n---\n" * (2 << 20))
    found = run("evaluator", program, path)
    assert found.returncode in (1, 2)
    assert "larger than 16MiB" in found.stdout + found.stderr


@pytest.mark.parametrize(
    "flag", ["--file", "--openmetrics", "--cache", "--rules.file", "--compare"]
)
def test_backtest_refuses_a_file_that_never_ends(endless, policy, dump, tmp_path, flag):
    given = {"--file": policy, "--openmetrics": dump}
    if flag == "--cache":  # which reads the ends of files first
        given |= {"--openmetrics": endless, "--cache": tmp_path / "cache"}
    else:
        given[flag] = endless
    assert_refused(
        run("evaluator", "backtest", *(f"{name}={value}" for name, value in given.items()))
    )


@pytest.mark.parametrize("place", ["rules", "samples"])
def test_backfill_refuses_a_file_that_never_ends(endless, dump, tmp_path, place):
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups: [{name: g, rules: [{record: r, expr: load1}]}]")
    files = (rules, endless) if place == "samples" else (endless, dump)
    done = run("agent", "backfill", f"--rules.file={files[0]}", files[1])
    assert_refused(done)


def test_standard_input_is_read():
    done = run("evaluator", "check", "-", text=POLICY)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("time", ["0", "-5000000000", "12.5", "95000000000"])
def test_sample_of_another_time_is_named(policy, dump, time):
    """A node that booted without a clock is in 1970: 100 million steps of 15 s before the others."""
    with dump.open("a") as file:
        file.write(f'load1{{node="odd"}} 1 {time}\n')
    done = run("evaluator", "backtest", "-f", policy, "--openmetrics", dump)
    assert done.returncode == 2
    assert f'load1{{node="odd"}} at {time}' in done.stderr
    assert "--from" in done.stderr
    done = run(
        "evaluator", "backtest", "-f", policy, "--openmetrics", dump, "--to=1763165340", "--from=9m"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("output", ["text", "csv", "html"])
def test_names_in_samples_do_not_control_the_terminal(policy, dump, output):
    name = "\x1b]0;owned\x07\x9b31m\u202e"
    lines = [
        f'load1{{node="{name}"}} {value} {1_763_164_800 + 60 * minute}\n'
        for minute, value in enumerate([1, 9, 9, 1])
    ]
    dump.write_text("".join(lines))
    done = run("evaluator", "backtest", "-f", policy, "--openmetrics", dump, "-o", output)
    assert done.returncode == 0, done.stderr
    assert "owned" in done.stdout
    assert all(text.isprintable() for text in (done.stdout + done.stderr).split("\n"))
