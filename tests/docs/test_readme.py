"""The commands of the README work."""

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- tested: .*? -->\n```sh\n(.*?)```", re.DOTALL)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Path]:
    """A folder in which `plimsoll-sandbox up` runs, with deploy/ as in a clone."""
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    command = [sys.executable, "-P", "-m", "sandbox", "up"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(tmp_path / ".sandbox" / "endpoints.json", process)
            yield tmp_path
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, "plimsoll-sandbox up ended by itself"
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.05)


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
def test_commands_of_the_readme_work(sandbox: Path) -> None:
    """Every command of the block succeeds, and the violating node is labelled and emptied."""
    found = BLOCK.search((ROOT / "README.md").read_text())
    assert found is not None
    shell = ["bash", "-euo", "pipefail", "-c", found[1]]
    result = subprocess.run(
        shell, cwd=sandbox, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert result.returncode == 0, result.stderr + result.stdout
    assert re.search(r"^node-a .* violating$", result.stdout, re.MULTILINE), result.stdout
    tables = re.findall(r"^NAME +READY .*\n((?:demo-app.*\n)+)", result.stdout, re.MULTILINE)
    first, scaled = [placements(table) for table in tables]
    added = [node for pod, node in scaled.items() if pod not in first]
    assert len(added) == 2
    assert "node-b" not in added


def placements(table: str) -> dict[str, str]:
    """Pod and node from `kubectl get pods -o wide`."""
    rows = [re.split(r"\s{2,}", line) for line in table.splitlines()]
    return {row[0]: row[6] for row in rows}
