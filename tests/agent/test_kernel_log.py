"""`plimsoll-agent kernel-log` as a process: it serves the log and ends cleanly."""

import os
import signal
import sys
from pathlib import Path

import pytest

from plimsoll.kernellog.handover import SocketReader
from tests import preloaded
from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e


def command(*argv: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "agent", "kernel-log", *argv)


def test_log_is_served_until_sigterm(tmp_path: Path) -> None:
    log, path = tmp_path / "kmsg", tmp_path / "socket"
    log.write_text("6,1,1,-;hello\n")
    program = preloaded.start_blocking(
        command(f"--socket={path}", f"--source={log}"), {**os.environ}, stderr=-1
    )
    assert "listening" in program.stderr.readline()
    reader = SocketReader(path, None)
    assert [record.text for record in reader.read(PATIENCE).records] == ["hello"]
    reader.close()
    program.send_signal(signal.SIGTERM)
    program.communicate()
    assert program.returncode == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--socket=/none/socket",), "cannot start"),
        (("--allow-uid=root",), "not a uid"),
        (("--max-records-per-second=0",), "not a number of 1 or more"),
    ],
)
def test_mistakes_end_the_program_with_a_sentence(flags: tuple[str, ...], text: str) -> None:
    program = preloaded.start_blocking(command(*flags), {**os.environ}, stderr=-1)
    _, output = program.communicate()
    assert program.returncode in {1, 2}
    assert text in output
