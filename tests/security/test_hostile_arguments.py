"""Files named on the command line: no FIFO, no device, no megabytes of YAML."""

import os
import subprocess
import sys

import pytest

WATCHDOG = 60


@pytest.mark.parametrize("kind", ["fifo", "device", "large"])
@pytest.mark.parametrize("program", ["check", "test"])
def test_file_that_never_ends_is_refused(tmp_path, kind, program):
    path = tmp_path / "file.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_text("a: b\n---\n" * (12 << 20 >> 3) * 2)
    command = (sys.executable, "-P", "-m", "evaluator", program, str(path))
    found = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG)
    assert found.returncode not in (0, None)
    reason = "larger than 16MiB" if kind == "large" else "not a regular file"
    assert reason in found.stdout + found.stderr
