"""Executes a program that is killed when the sandbox ends: `python -I -S pdeathsig.py <sandbox's pid> <program> [argument...]`.

A separate launcher, because code between fork and exec would run in a copy of a threaded process.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exit if it has ended. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if os.getppid() != parent:  # the parent ended before prctl
        sys.exit(f"process {parent} is gone")


def main(argv: list[str]) -> None:
    """End with the parent, then exec the program. Raises OSError."""
    end_with(int(argv[1]))
    program = argv[2:]
    os.execvp(program[0], program)  # noqa: S606 (the pid must stay, so that signals reach the program)


if __name__ == "__main__":
    main(sys.argv)
