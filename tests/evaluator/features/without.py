"""Runs copies of the tree in one process each: `without.py <root> <copy>...` writes <copy>/help, <copy>/answer and <copy>/status.

Each is a fork of this process, which has imported the libraries and none of our packages: importing these takes most of
the time of a program. `root` is the tree that tells which libraries these are.
"""

import contextlib
import gc
import importlib
import io
import os
import runpy
import sys
import traceback
from pathlib import Path

DECIDE_AND_ANSWER = Path(__file__).with_name("decide_and_answer.py")


def print_help(root: Path) -> None:
    """Print the help of a tree's evaluator and of its commands. Other programs import nothing of it: a contract in pyproject.toml."""
    sys.path.insert(0, str(root))
    evaluator = importlib.import_module("evaluator.main")
    assert Path(str(evaluator.__file__)).is_relative_to(root), evaluator.__file__
    for command in ((), *((command,) for command in evaluator.COMMANDS)):
        with contextlib.suppress(SystemExit):
            evaluator.main([*command, "--help"])
        print("--end")  # noqa: T201 (read by the test)


def print_libraries(root: Path) -> None:
    """Print the names of the modules that the evaluator of a tree imports, except its own."""
    with contextlib.redirect_stdout(io.StringIO()):
        print_help(root)
    ours = {path.name for path in root.iterdir()}
    for name in [*sys.modules]:
        if name.partition(".")[0] not in ours:
            print(name)  # noqa: T201 (read by main)


def run(tree: Path) -> None:
    """Write the help of a tree's evaluator, and what it decides and answers."""
    with (tree / "help").open("w") as file, contextlib.redirect_stdout(file):
        print_help(tree)
    with (tree / "answer").open("w") as file, contextlib.redirect_stdout(file):
        runpy.run_path(str(DECIDE_AND_ANSWER), run_name="__main__")


def forked(output: Path, act, tree: Path) -> None:
    """Run a function in a fork; its output, with the traceback if it fails, is written to a file."""
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        act(tree)
    except BaseException:  # noqa: BLE001 (the test shows it)
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    root, *trees = map(Path, sys.argv[1:])
    libraries = trees[0] / "libraries"
    forked(libraries, print_libraries, root)
    for name in libraries.read_text().split():
        with contextlib.suppress(ImportError):  # names that are made at run time
            importlib.import_module(name)
    gc.freeze()
    for tree in trees:
        forked(tree / "output", run, tree)


main()
