"""Wheel, sdist and chart are the same, bit for bit, when built twice from two copies of a checkout."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from release import chart_package

ROOT = Path(__file__).parents[2]


def copied(folder, age):
    """Copy what git knows, with other times of files."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if name.startswith("tests/") or not (ROOT / name).is_file():
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        shutil.copymode(ROOT / name, target)
        os.utime(target, (age, age))
    return folder


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory):
    return [
        copied(tmp_path_factory.mktemp("checkout"), age) for age in (1_700_000_000, 1_760_000_000)
    ]


def test_wheel_and_sdist_are_reproducible(checkouts):
    built = []
    for checkout in checkouts:
        command = [sys.executable, "-m", "hatchling", "build", "--directory", "dist"]
        subprocess.run(command, cwd=checkout, env={"PATH": "/usr/bin:/bin", "PYTHONSAFEPATH": "1"}, check=True, capture_output=True)  # fmt: skip
        built.append(digests(checkout / "dist"))
    assert built[0] == built[1]
    assert len(built[0]) == 2


def test_the_chart_is_reproducible(checkouts, tmp_path):
    packed = [chart_package.pack(checkout / "deploy/chart") for checkout in checkouts]
    assert packed[0] == packed[1]
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel here")
    (tmp_path / "plimsoll.tgz").write_bytes(packed[0])
    with helm.Chart.load(tmp_path / "plimsoll.tgz") as chart:
        assert {"rules/health.yaml", "files/certificates.py"} <= {
            one["name"] for one in chart.files
        }
