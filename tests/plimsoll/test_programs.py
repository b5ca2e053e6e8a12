"""A program without its extra says what to install; the Makefile names the Python that it needs."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize(
    ("program", "extra"), [("agent", "agent"), ("evaluator", "evaluator"), ("sandbox", "sandbox")]
)
def test_program_without_its_extra_names_it(program, extra):
    assert SCRIPTS[f"plimsoll-{program}"] == f"plimsoll.programs:{program}"
    # -S: without site-packages, as in an environment where only the package itself is installed
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from plimsoll import programs; sys.exit(programs.{program}())"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"pip install '.[{extra}]'\n")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not on PATH")
def test_make_demo_with_an_older_python_says_which_it_needs(tmp_path):
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\nexit 1\n')
    old.chmod(0o755)
    command = ["make", "-s", "demo", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Plimsoll needs Python 3.11 or newer" in done.stderr
    assert "Python 3.9.2" in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not on PATH")
def test_make_demo_installs_no_developer_tools(tmp_path):
    command = ["make", "-n", "demo", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Installing Plimsoll and its dependencies" in done.stdout
    assert "-r requirements.txt" in done.stdout
    assert "constraints.txt" not in done.stdout
    assert "\npytest==" not in (ROOT / "requirements.txt").read_text()
