"""Processes of benchmarks."""

import subprocess
import sys

import psutil
import pytest

from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e

PROGRAM = """
import os, signal
from bench.processes import beside

def wait(connection):
    connection.send(os.getpid())
    signal.pause()

if __name__ == "__main__":
    with beside(wait) as connection:
        print(connection.recv(), flush=True)
        signal.pause()
"""


def test_process_beside_a_benchmark_ends_when_that_is_killed(tmp_path):
    (tmp_path / "killed.py").write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, tmp_path / "killed.py"], stdout=subprocess.PIPE, text=True
    ) as benchmark:
        child = psutil.Process(int(benchmark.stdout.readline()))
        benchmark.kill()
    child.wait(PATIENCE)
