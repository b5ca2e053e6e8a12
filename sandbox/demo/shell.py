"""Command lines as a person would type them here: complete, quoted, with paths that lead to the files from where they stand."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def path(file: Path) -> str:
    """A path, from the working directory where it is below that, quoted for a shell."""
    here = Path.cwd()
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))


def program(name: str) -> str:
    """A program of this installation: its name where a shell finds that on PATH, else its path."""
    ours = Path(sys.executable).parent / name
    found = shutil.which(name)
    same = found is not None and Path(found).resolve() == ours.resolve()
    return name if same or not ours.exists() else path(ours)


def write(lines: Sequence[str], file: Path) -> str:
    """The command that writes these lines to a file."""
    words = " ".join(map(shlex.quote, lines))
    return (
        f"printf '%s\\n' {words} > {path(file)}"
        if len(lines) > 1
        else f"echo {words} > {path(file)}"
    )
