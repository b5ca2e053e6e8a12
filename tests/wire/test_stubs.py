"""The committed stubs match the committed .proto."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
STUBS = ["telemetry_pb2.py", "telemetry_pb2.pyi", "telemetry_pb2_grpc.py"]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """A folder in which the .proto was compiled as by `make proto`."""
    folder = tmp_path_factory.mktemp("stubs")
    (folder / "wire").mkdir()
    shutil.copy(ROOT / "wire/telemetry.proto", folder / "wire")
    (command,) = [
        line.split("grpc_tools.protoc", 1)[1].split()
        for line in (ROOT / "Makefile").read_text().splitlines()
        if "grpc_tools.protoc" in line
    ]
    subprocess.run(
        [sys.executable, "-P", "-m", "grpc_tools.protoc", *command],
        cwd=folder,
        check=True,
        timeout=PATIENCE,
    )
    return folder / "wire"


@pytest.mark.parametrize("name", STUBS)
def test_regenerated_stubs_equal_the_committed_ones(generated, name):
    assert (generated / name).read_text() == (ROOT / "wire" / name).read_text(), (
        "wire/telemetry.proto has changed: run `make proto`"
    )
