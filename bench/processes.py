"""What a benchmark runs beside itself: functions and programs in processes of their own, which end with it."""

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
    """A function in a process of its own, which gets the other end of the connection first."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *args), daemon=True)
    process.start()
    theirs.close()  # or nobody would learn that the process has died
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


@contextlib.contextmanager
def program(argv: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that writes to a file and dies with us; stopped at the end, by force if it does not stop."""
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
