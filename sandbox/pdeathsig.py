"""Becomes another program that dies with the sandbox: `python -I -S tether.py <sandbox's pid> <program> [argument...]`.

A launcher of its own, and not code between fork and exec in the sandbox: that would run in a copy of a threaded process.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Ask the kernel to kill us when our parent dies, see that it still lives, then exec."""
    parent, program = int(argv[1]), argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if os.getppid() != parent:  # it died before we asked
        sys.exit(f"process {parent} is gone")
    os.execvp(program[0], program)  # noqa: S606 (the pid must stay, so that signals reach the program)


if __name__ == "__main__":
    main(sys.argv)
