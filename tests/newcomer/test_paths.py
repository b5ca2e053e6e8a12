"""The five paths of a new user are scripts of commands that the documentation has, and they work, as do those of the README."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SCRIPTS = sorted(path.stem for path in HERE.glob("*.sh"))
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/*/README.md")]

BLOCK = re.compile(r"<!-- tested: .*? -->\n```sh\n(.*?)```", re.DOTALL)
POLICY = """
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: load, namespace: default}
spec: {strategies: {dontschedule: {rules: [{metricname: load1, operator: GreaterThan, target: 6}]}}}
"""
UNIT_TEST = """
policy_files: [policy.yaml]
tests:
  - input_series: [{series: 'load1{node="a"}', values: '7x9'}]
    policy_test: [{eval_time: 5m, policy: load, strategy: dontschedule, exp_nodes: [a]}]
"""


def commands(name):
    """The commands of a script; a line that ends in a backslash goes on."""
    text = (HERE / f"{name}.sh").read_text().replace("\\\n", " ")
    return [re.sub(r"\s+", " ", line) for line in text.splitlines() if not line.startswith("#")]


def documented():
    found = set()
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for line in text.splitlines():
            found.add(
                re.sub(r"\s+", " ", line).strip().removeprefix("$ ").partition("  #")[0].strip()
            )
            found |= {re.sub(r"\s+", " ", one) for one in re.findall(r"`([^`]+)`", line)}
            if "adopt-labels" in line:  # without the exec into the pod
                found.add(line.partition(" -- ")[2])
    return {line.partition(" #")[0].strip() for line in found}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_path_has_only_commands_of_the_documentation(name):
    known = documented()
    assert [command for command in commands(name) if command not in known] == []


def test_there_are_five_paths():
    assert SCRIPTS == ["agent", "backtest", "demo", "policies", "tas-migration"]


@pytest.fixture
def run(tmp_path):
    """Run a script in a folder as a checkout has it, with our programs on the PATH."""

    def script(name, folder=tmp_path):
        return started("bash", "-euo", "pipefail", HERE / f"{name}.sh", folder=folder)

    return script


def started(*command, folder):
    (folder / "deploy").exists() or (folder / "deploy").symlink_to(ROOT / "deploy")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip


def succeeds(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """A folder in which `plimsoll up` runs. The tests of it are the last, as it takes half a core."""
    folder = tmp_path_factory.mktemp("sandbox")
    command = [sys.executable, "-P", "-m", "sandbox", "up"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + PATIENCE
            while not (folder / ".sandbox/endpoints.json").exists():
                assert process.poll() is None, "plimsoll up ended by itself"
                assert time.monotonic() < end
                time.sleep(0.05)
            yield folder
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")


@pytest.mark.e2e
def test_a_backtest_works(run, tmp_path):
    now = int(time.time()) // 60 * 60
    lines = [f'load1{{node="{node}"}} 1 {now - 60 * minute}\n' for node in "abc" for minute in range(60, 0, -1)]  # fmt: skip
    (tmp_path / "week.om").write_text("".join([*lines, "# EOF\n"]))
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "policy_test.yaml").write_text(UNIT_TEST)
    assert "policy default/load" in succeeds(run("backtest"))


@pytest.mark.e2e
def test_the_agent_works(run):
    done = run("agent")
    # The folder of the rules is the container's.
    assert "/etc/plimsoll/rules" in done.stderr or done.returncode == 0, done.stderr


@pytest.mark.e2e
@needs_kubectl
def test_the_demo_works(tmp_path):
    """With the packages of this interpreter: make installs none."""
    installed = tmp_path / "installed"
    installed.touch()
    flags = f"RUNTIME={installed} BIN={Path(sys.executable).parent}"
    done = subprocess.run(["bash", "-euo", "pipefail", HERE / "demo.sh"], cwd=ROOT, env={**os.environ, "MAKEFLAGS": flags, "TMPDIR": str(tmp_path)}, capture_output=True, text=True)  # fmt: skip
    output = succeeds(done)
    assert done.stderr == ""
    assert f"All {output.count('✓')} expected effects were observed" in output
    [page] = tmp_path.glob("plimsoll-demo-*")  # the cluster's folder was removed
    assert page.as_uri() in output


@pytest.mark.e2e
@needs_kubectl
def test_commands_of_the_readme_work(sandbox):
    """Every command of the block succeeds, and the violating node is labelled and emptied."""
    found = BLOCK.search((ROOT / "README.md").read_text())
    output = succeeds(started("bash", "-euo", "pipefail", "-c", found[1], folder=sandbox))
    assert re.search(r"^node-a .* violating$", output, re.MULTILINE), output
    tables = re.findall(r"^NAME +READY .*\n((?:demo-app.*\n)+)", output, re.MULTILINE)
    first, scaled = [placements(table) for table in tables]
    added = [node for pod, node in scaled.items() if pod not in first]
    assert len(added) == 2
    assert "node-b" not in added


def placements(table):
    """Pod and node from `kubectl get pods -o wide`."""
    rows = [re.split(r"\s{2,}", line) for line in table.splitlines()]
    return {row[0]: row[6] for row in rows}


@pytest.mark.e2e
@needs_kubectl
def test_policies_and_the_migration_work_in_a_sandbox(sandbox, run):
    output = succeeds(run("policies", sandbox))
    assert "evaluator: ready" in output
    assert re.search(r"demo-policy +Violated", output)
    output = succeeds(run("tas-migration", sandbox))
    assert "demo-policy" in output
