"""Files of others in the agent's directory: together they take no more memory than their limits allow."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
FILES = 20
READ = """
import re, sys
from pathlib import Path
from collectors.textfile.promfiles import Limits, PromFiles

def peak():
    return int(re.search("VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

before = peak()
PromFiles((sys.argv[1],), limits=Limits(1 << 20, 4 << 20, 20_000)).read()
print(peak() - before)
"""
"""Prints the bytes by which reading a directory raises the peak."""


def sparse(number):
    """Each sample of a family gets the labels of all others."""
    return "".join(f'm{number}{{l{i}="{i}"}} 1\n' for i in range(440))


def labelled(number):
    """A label takes 70 times the memory of its text."""
    labels = ",".join(f'{"abcdefghijklmnopqrstuvwxyz"[i % 26]}{i}=""' for i in range(1_000))
    lines = (f"m{number}_{i}{{{labels}}} 1\n" for i in range(MIB // 9_000))
    return "".join(lines)


def described(number):
    return "".join(f"# HELP m{i:x} x\n" for i in range(60_000))


def comments(number):
    return "#\n" * (MIB // 2)


def endless(number):
    return "".join(f"m{number}_{i} 1\n" for i in range(40_000)) + "broken"


@pytest.mark.parametrize(
    ("content", "files"),
    [
        (sparse, FILES),
        (labelled, FILES),
        (described, FILES),
        (comments, 2),  # their lines, kept, would take 60 MB
        (endless, FILES),
    ],
)
def test_prom_files_together_take_bounded_memory(tmp_path, content, files):
    for number in range(files):
        path = tmp_path / f"{number}.prom"
        path.write_text(content(number))
        assert path.stat().st_size <= MIB
    grown = subprocess.run(
        (sys.executable, "-P", "-c", READ, str(tmp_path)),
        capture_output=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert int(grown.stdout) < 40 * MIB
