"""Each decoder under a coverage-guided fuzzer. Add its findings to the corpus."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.corpora import CORPORA
from tests.fuzz.targets import TARGETS

HERE = Path(__file__).parent
SECONDS = 60
"""Seconds per target."""


@pytest.fixture(autouse=True)
def _patience(soak):
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed (pip install atheris)")
    if not soak:
        pytest.skip("takes a minute for each decoder: only with --soak")


@pytest.mark.parametrize("name", TARGETS)
def test_only_documented_exceptions_are_raised(name, tmp_path):
    found = tmp_path / "found"
    found.mkdir()
    done = subprocess.run(
        (
            *(sys.executable, "-P", HERE / "coverage_guided.py", name),
            *(f"-max_total_time={SECONDS}", "-max_len=4096", "-timeout=30", "-rss_limit_mb=1024"),
            *(f"-artifact_prefix={tmp_path}/", found, CORPORA[name]),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS * 10,
    )
    culprits = [path.read_bytes() for path in tmp_path.iterdir() if path.is_file()]
    assert done.returncode == 0, (culprits, done.stdout[-3000:].decode(errors="replace"))
