"""Runs functions and programs in separate processes that end with the benchmark."""

import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sandbox import pdeathsig
from sandbox.processes import loopback_environment

_PATIENCE = 10.0


@contextlib.contextmanager
def beside(target: Callable[..., None], *args: object) -> Iterator["Connection[Any, Any]"]:
    """Run a function in a separate process; its first argument is the other end of the yielded connection."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_ending_with, args=(os.getpid(), target, theirs, *args), daemon=True
    )
    process.start()
    theirs.close()  # so that the death of the process closes the connection
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def _ending_with(parent: int, target: Callable[..., None], *args: object) -> None:
    """Run a function in this process, which is killed when its parent is: nothing else would end it then."""
    pdeathsig.end_with(parent)
    target(*args)


@contextlib.contextmanager
def program(argv: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program with its output in a file; it is stopped at the end, killed if necessary, and dies with this process."""
    launcher = (sys.executable, "-I", "-S", pdeathsig.__file__, str(os.getpid()))
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*launcher, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=loopback_environment(),
        )
    with process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
