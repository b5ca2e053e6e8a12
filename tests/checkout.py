"""A copy of the tree in which a test adds, changes and removes files, and runs the project's own checks and programs."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
_LEFT_OUT = shutil.ignore_patterns(
    ".*", "*.pyc.*", "*.png", "corpus", "node_modules", "results.jsonl"
)
"""Bytecode is copied: it is valid for a copy, whose files have the same time. `*.pyc.*` are those just being written."""
_LOOPBACK = (
    *("--port=0", "--opsPort=0", "--agentPort=0", "--bindAddress=127.0.0.1", "--unsafe"),
    *("--leaseNamespace=default", "--shutdownDelay=0s"),
)
_UNREACHABLE = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


class Checkout:
    """The copy at `root`; programs run in it import its packages and not those of the checkout that runs the tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT, root, ignore=_LEFT_OUT, symlinks=True)
        (root / ".venv").symlink_to(Path(sys.prefix))  # for make
        self._env = {**os.environ, "PYTHONPATH": str(root)}

    def remove(self, *paths: str) -> None:
        """Remove files and folders; at least one of the paths exists."""
        found = [self.root / path for path in paths if (self.root / path).exists()]
        assert found, paths
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def delete_feature(self, name: str) -> None:
        """Delete a feature of the evaluator: its line in the list, and what checks/features.py prints."""
        for path in self.run("python", "-P", "checks/features.py", name).split():
            if (self.root / path).exists():
                self.remove(path)
        registry = self.root / "evaluator/features/registry.py"
        registry.write_text(registry.read_text().replace(f'    "{name}",\n', ""))

    def modules(self, path: str) -> list[Path]:
        """Return the Python files below a folder, a file itself, or none."""
        found = self.root / path
        return [*found.rglob("*.py")] if found.is_dir() else [found] * found.exists()

    def run(self, *command: str) -> str:
        """Run a command of the virtual environment and return its output; fail if it fails."""
        status, printed = self.outcome(*command)
        assert status == 0, f"{' '.join(command)}: {printed[-6000:]}"
        return printed

    def outcome(self, *command: str) -> tuple[int, str]:
        """Run a command of the virtual environment and return its status and output."""
        program = Path(sys.prefix) / "bin" / command[0]
        ran = self._run(str(program), *command[1:])
        return ran.returncode, ran.stdout + ran.stderr

    def shell(self, line: str) -> None:
        """Run a line of a recipe; fail if it fails."""
        ran = self._run("sh", "-ec", line)
        assert ran.returncode == 0, f"{line}: {ran.stdout[-3000:]}{ran.stderr[-3000:]}"

    def make(self, target: str) -> None:
        """Run make; it does not install: the copy uses the virtual environment of the tests."""
        self.shell(f"make -o .venv/.installed {target}")

    @contextlib.contextmanager
    def agent(self, *flags: str) -> Iterator[str]:
        """Run an agent and yield its address."""
        with self._program("agent", "--web.listen-address=127.0.0.1:0", *flags) as (address,):
            yield address

    @contextlib.contextmanager
    def evaluator(self, *flags: str) -> Iterator[str]:
        """Run an evaluator whose API server cannot be reached, and yield the address of its operations port."""
        config = self.root / "kubeconfig.json"
        config.write_text(json.dumps(_UNREACHABLE))
        given = (*_LOOPBACK, f"--kubeConfig={config}", *flags)
        with self._program("evaluator", *given, ports=3) as (operations, *_):
            yield operations

    @contextlib.contextmanager
    def _program(self, name: str, *flags: str, ports: int = 1) -> Iterator[list[str]]:
        """Run a program and yield the addresses that it listens on, once there are as many as `ports`."""
        command = (sys.executable, "-P", "-m", name, *flags)
        with subprocess.Popen(
            command, cwd=self.root, env=self._env, stderr=subprocess.PIPE, text=True
        ) as program:
            try:
                yield _addresses(program, ports)
            finally:
                program.terminate()

    def _run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, cwd=self.root, env=self._env, capture_output=True, text=True)


def _addresses(program: "subprocess.Popen[str]", count: int) -> list[str]:
    assert program.stderr is not None
    logged, addresses = [], []
    for line in program.stderr:
        logged.append(line)
        if "msg=listening" in line and (match := re.search(r"address=(\S+)", line)):
            addresses.append(match.group(1))
            if len(addresses) == count:
                return addresses
    raise AssertionError(f"the program ended: {''.join(logged)}")


def get(address: str, path: str) -> str:
    """Return what a program answers to GET."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as reply:
        text: str = reply.read().decode()
        return text


def scrape(address: str) -> str:
    """Return the metrics of a program."""
    return get(address, "/metrics")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "plimsoll")
