"""Files named on the command line: no FIFO, no device, no megabytes of YAML."""

import asyncio
import gzip
import os
import sys
from dataclasses import dataclass

import pytest

from tests import preloaded
from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e

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
        async with asyncio.timeout(PATIENCE):
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
    "flag", ["--file", "--openmetrics", "--cache", "--rules.file", "--compare", "--faults"]
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


COLUMNS = "arrives,life,cpu_request,memory_request,cpu_limit,cpu_use,owner\n"
NUL = b"\0" * (1 << 20)
USE = "".join(
    f'node_cpu_used_cores{{node="{{}}"}} 1 {1_763_164_800 + 60 * minute}\n' for minute in range(10)
)


def simulated(tmp_path, policy, flag, path, node="a", value="1"):
    """Run `simulate` with a file of traces, or of arrivals beside recorded use."""
    given = [f"{flag}={path}"]
    simulated = tmp_path / "simulated.yaml"
    simulated.write_text(policy.read_text().replace("load1", "cpu_used_cores"))
    if flag == "--arrivals":
        use = tmp_path / "use.om"
        use.write_text(USE.replace("{}", node).replace(" 1 ", f" {value} "))
        given += [f"--openmetrics={use}", "--cores=4"]
    else:
        given += ["--nodes=2", "--for=1h"]
    return run("evaluator", "simulate", "-f", simulated, *given)


@pytest.mark.parametrize("flag", ["--traces", "--arrivals"])
def test_simulate_refuses_a_file_that_never_ends(endless, policy, tmp_path, flag):
    assert_refused(simulated(tmp_path, policy, flag, endless))


@pytest.mark.parametrize(
    ("flag", "content", "message"),
    [
        ("--traces", NUL, "a line of more than"),
        ("--traces", b"\n" * 300_000, "more than 250,000 lines"),
        ("--traces", b"nan," * 287 + b"nan", "percentages from 0 to 100"),
        ("--traces", b"1e999," * 287 + b"1", "percentages from 0 to 100"),
        ("--traces", b"\x1b]0;owned\x07,1", "not numbers"),
        ("--traces", b"\xff\xfe", "not a text file"),
        ("--arrivals", NUL, "a line of more than"),
        ("--arrivals", COLUMNS.encode() + b"\n" * 300_000, "more than 250,000 lines"),
        ("--arrivals", f"{COLUMNS}nan,1,1,1,1,1,\n".encode(), "must be finite"),
        ("--arrivals", f"{COLUMNS}1e999,1,1,1,1,1,\n".encode(), "must be finite"),
        ("--arrivals", f"{COLUMNS}1,1,1,1,-1,1,\n".encode(), "at least 0"),
        ("--arrivals", f'{COLUMNS}"\x1b]0;owned\x07",1,1,1,1,1,\n'.encode(), "not a number"),
        ("--arrivals", f"{COLUMNS}1,1,1,1,1,1,{'o' * 300}\n".encode(), "too long"),
        ("--arrivals", f'{COLUMNS}1,1,1,1,1,"1\n'.encode() * 9, "not a number"),
        ("--arrivals", b"\x1b[31m\n", "no column"),
        ("--arrivals", f"{COLUMNS}1,1,1,1,1,1e308,\n".encode(), "at most 1e+06 cores"),
        ("--arrivals", f"{COLUMNS}1,1,1e308,1e308,1,1,\n".encode(), "at most 1e+06 cores"),
        ("--arrivals", f"{COLUMNS}1e9,1,1,1,1,1,\n".encode(), "no pod arrives within"),
    ],
)
def test_simulate_names_what_is_wrong_with_a_file(policy, tmp_path, flag, content, message):
    path = tmp_path / "input.csv"
    path.write_bytes(content)
    done = simulated(tmp_path, policy, flag, path)
    assert_error(done, message)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seed=-1"], "0 or more"),
        ([f"--seed={'9' * 6000}"], "at most 100 digits"),
        (["--load=5e-324"], "less than one pod"),
        (["--cores=1e-300", "-o", "svg"], "less than one pod"),
    ],
)
def test_simulate_names_what_is_wrong_with_a_flag(policy, tmp_path, flags, message):
    simulated = tmp_path / "simulated.yaml"
    simulated.write_text(policy.read_text().replace("load1", "cpu_used_cores"))
    assert_error(run("evaluator", "simulate", "-f", simulated, "--nodes=2", *flags), message)


@pytest.mark.parametrize("value", ["+Inf", "-1", "1e300"])
def test_simulate_refuses_use_that_no_node_has(policy, tmp_path, value):
    path = tmp_path / "input.csv"
    path.write_text(f"{COLUMNS}1,1,1,1,1,1,\n")
    done = simulated(tmp_path, policy, "--arrivals", path, value=value)
    assert_error(done, "is not from 0 to 1e+06 cores")


@pytest.mark.parametrize("cut", [9, -9], ids=["truncated", "incomplete"])
def test_simulate_refuses_an_incomplete_or_damaged_gzip_file(policy, tmp_path, cut):
    path = tmp_path / "traces.csv.gz"
    path.write_bytes(gzip.compress((b"1," * 287 + b"1\n") * 1000)[:cut])
    assert_error(simulated(tmp_path, policy, "--traces", path), "incomplete gzip file")
    path.write_bytes(gzip.compress(b"")[:10] + b"\xff" * 100)
    assert_error(simulated(tmp_path, policy, "--traces", path), "incomplete gzip file")


def assert_error(done, message):
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert all(text.isprintable() for text in (done.stdout + done.stderr).split("\n"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected the header"),
        (b"\x1b]0;owned\x07,start,end\n", "expected the header"),
        (b"\xff\xfe", "not a text file"),
        (b"node,start,end\na,1\n", "2 columns, expected 3"),
        (b"node,start,end\na,nan,\n", "is no time"),
        (b"node,start,end\na,1e999,\n", "is no time"),
        (b"node,start,end\na,\x1b[31m,\n", "is no time"),
        (b"node,start,end\na,2,1\n", "ends before it begins"),
        (b"node,start,end\n" + b"a,1,2\n" * 100_001, "more than 100,000 faults"),
        (b"node,start,end\n" + b"a" * 200_000 + b",1,2\n", "not CSV"),
        (b"a" * (17 << 20), "larger than 16MiB"),
    ],
)
def test_backtest_names_what_is_wrong_with_a_file_of_faults(
    policy, dump, tmp_path, content, message
):
    path = tmp_path / "faults.csv"
    path.write_bytes(content)
    done = run("evaluator", "backtest", "-f", policy, "--openmetrics", dump, f"--faults={path}")
    assert_error(done, message)


def test_names_and_times_in_files_do_not_control_the_terminal_or_raise(policy, dump, tmp_path):
    name = "\x1b]0;owned\x07\x9b31m\u202e"
    faults, arrivals = tmp_path / "faults.csv", tmp_path / "arrivals.csv"
    faults.write_text(f"node,start,end,policy\n{name},1,2,\na,-1e308,1e308,{name}\na,0,1e308,\n")
    arrivals.write_text(f"{COLUMNS}1,1e308,1e-9,1e308,1,1,{name}\n0,60,1,1,1,0.5,{name}\n")
    for done in (
        run("evaluator", "backtest", "-f", policy, "--openmetrics", dump, f"--faults={faults}"),
        simulated(tmp_path, policy, "--arrivals", arrivals, node=name),
    ):
        assert done.returncode == 0, done.stderr
        assert all(text.isprintable() for text in (done.stdout + done.stderr).split("\n"))


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
