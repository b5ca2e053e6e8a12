"""Subcommands live apart from the running evaluator."""

import subprocess
import sys

_LOADED = """
import sys, evaluator.app, evaluator.main
print(*(name for name in sys.modules if name.startswith("evaluator.tools")))
"""


def test_running_evaluator_imports_no_subcommand():
    command = [sys.executable, "-P", "-c", _LOADED]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
