"""`plimsoll eval` as a process, forked from one that has already imported the agent."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

from agent.eval import command  # imported once, in the forking server
from tests.patience import PATIENCE

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload([__name__])


def run(folder: Path, argv: list[str], text: str) -> "subprocess.CompletedProcess[str]":
    """Run the command; return the exit status and output. `text`: standard input; `folder`: files of all three."""
    stdin, stdout, stderr = (folder / name for name in ("stdin", "stdout", "stderr"))
    stdin.write_text(text)
    program = _SERVER.Process(target=_become, args=(argv, [stdin, stdout, stderr]))
    program.start()
    program.join(PATIENCE)
    assert program.exitcode is not None, f"still running: {argv}"
    done = subprocess.CompletedProcess(
        argv, program.exitcode, stdout.read_text(), stderr.read_text()
    )
    program.close()
    return done


def _become(argv: list[str], streams: list[Path]) -> None:
    flags = (
        os.O_RDONLY,
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    )
    for number, (path, flag) in enumerate(zip(streams, flags, strict=True)):
        os.dup2(os.open(path, flag), number)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has replaced it with /dev/null
    sys.exit(command.main(argv))
