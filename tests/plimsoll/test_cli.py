"""The command plimsoll: every subcommand has a line in --help and a page of its own; a missing package is one sentence."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from plimsoll import cli

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def shown(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_lists_every_subcommand_in_80_columns(capsys):
    text = shown(capsys, "--help")
    for title, group in cli.GROUPS.items():
        below = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in below.splitlines()] == [*group]
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_every_subcommand_has_a_help_page_of_80_columns(name, capsys):
    text = shown(capsys, name, "--help")
    assert text.startswith(f"usage: plimsoll {name} ")
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_every_subcommand_names_an_extra_of_the_package(name):
    assert cli.SUBCOMMANDS[name].extra in PROJECT["optional-dependencies"]


def test_without_a_subcommand_the_help_is_shown(capsys):
    assert cli.main([]) == 0
    assert "Write policies:" in capsys.readouterr().out


def test_unknown_subcommand_is_an_error(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["frobnicate"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("plimsoll: unknown command 'frobnicate'")


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_subcommand_without_its_extra_names_it(name):
    """-S: without site-packages, as where only the package itself is installed."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from plimsoll import cli; sys.exit(cli.main([{name!r}, '--help']))"
    done = python("-I", "-S", "-c", code)
    if done.returncode == 0:  # its help needs no other package
        return
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"plimsoll {name}: ")
    assert done.stderr.endswith(f"pip install '.[{cli.SUBCOMMANDS[name].extra}]'\n")
    assert done.stderr.count("\n") == 1


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


WITHOUT_LAB = """
import sys
class Missing:
    def find_spec(self, name, *_):
        if name == "lab":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Missing())
from {module} import main
sys.exit(main(["backtest", "--help"]))
"""


@pytest.mark.parametrize("module", ["plimsoll.cli", "evaluator.main"])
def test_subcommand_that_an_image_leaves_out_says_where_it_is(module):
    """The evaluator's image has no `lab`."""
    done = python("-P", "-c", WITHOUT_LAB.format(module=module))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "plimsoll backtest is not in this image. Use the image plimsoll/tools, or in a checkout: pip install '.[evaluator]'\n"
    )


def test_no_subcommand_is_imported_before_it_is_called():
    code = "import sys, plimsoll.cli; print(*sys.modules)"
    done = python("-P", "-c", code)
    assert done.returncode == 0, done.stderr
    ours = {name.partition(".")[0] for name in done.stdout.split()}
    assert ours.isdisjoint({"agent", "collectors", "evaluator", "lab", "sandbox", "wire", "numpy"})


def test_every_module_of_the_table_exists():
    for found in cli.SUBCOMMANDS.values():
        assert callable(importlib.import_module(found.module).main)
