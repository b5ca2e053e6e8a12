"""Shell commands for the demos: complete and quoted, with paths relative to the working directory."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def path(file: Path) -> str:
    """Return a path quoted for a shell, relative to the working directory if it is below it."""
    here = Path.cwd()
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))


def program(name: str) -> str:
    """Return a program of this installation: its name if it is on PATH, else its path."""
    ours = Path(sys.executable).parent / name
    installed = shutil.which(name)
    same = installed is not None and Path(installed).resolve() == ours.resolve()
    return name if same or not ours.exists() else path(ours)


def write(lines: Sequence[str], file: Path) -> str:
    """Return the command that writes these lines to a file."""
    words = " ".join(map(shlex.quote, lines))
    return (
        f"printf '%s\\n' {words} > {path(file)}"
        if len(lines) > 1
        else f"echo {words} > {path(file)}"
    )
