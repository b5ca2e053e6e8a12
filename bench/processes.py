"""Runs functions and programs in separate processes that end with the benchmark."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from sandbox import pdeathsig
from sandbox.processes import loopback_environment

_PATIENCE = 10.0


FORKED = multiprocessing.get_context("forkserver")
"""Starts processes as forks of one that has imported the benchmark, which takes a second of CPU each time."""


@contextlib.contextmanager
def beside(
    target: Callable[..., None], *args: object, measured: bool = False
) -> Iterator["Connection[Any, Any]"]:
    """Run a function in a separate process; its first argument is the other end of the yielded connection.

    `measured`: it shares no memory with others, as its size is measured.
    """
    context: BaseContext = multiprocessing.get_context("spawn") if measured else FORKED
    ours, theirs = context.Pipe()
    process = context.Process(target=_ending_with_parent, args=(target, theirs, *args), daemon=True)
    process.start()
    theirs.close()  # so that the death of the process closes the connection
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def _ending_with_parent(target: Callable[..., None], *args: object) -> None:
    """Run a function in this process, which is killed when the benchmark is: nothing else would end it then."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    target(*args)


def _end_with_parent() -> None:
    """Wait for the end of the benchmark; the kernel would tell that of the process that this one is a fork of."""
    benchmark = multiprocessing.parent_process()
    assert benchmark is not None
    benchmark.join()
    os.kill(os.getpid(), signal.SIGKILL)


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
