"""The command `plimsoll-evaluator test`: runs test files, prints failures, returns the exit status."""

import sys
from collections.abc import Sequence

from evaluator.tools.policy_test import document, run
from evaluator.tools.policy_test.document import TestFileError
from plimsoll.commandline import Parser
from plimsoll.text import counted

PROGRAM = "plimsoll-evaluator test"
_ABOUT = """
Runs unit tests of policies: series in the notation of `promtool test rules`, and the nodes, reasons and labels that policies are
expected to decide at given times. It needs no cluster.
"""
_EXAMPLES = """
exit status: 0 if all tests pass, 1 if one fails, 2 for invalid arguments or test files.

example of a file:
  policy_files: [policy.yaml]
  tests:
    - interval: 1m
      input_series:
        - {series: 'load1{node="a"}', values: '0+1x9 _x3 stale'}
      policy_test:
        - {eval_time: 8m, policy: load, strategy: dontschedule, exp_nodes: [a]}
"""


def main(argv: Sequence[str]) -> int:
    """Run the test files in the arguments; return the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    command.add_argument("files", nargs="+", metavar="FILE", help="a test file")
    status = 0
    for name in command.parse_args(argv).files:
        try:
            file = document.read(name)
            failures = [*run.failures(file)]
        except TestFileError as error:
            sys.stderr.write(f"{PROGRAM}: {error}\n")
            status = 2
            continue
        sys.stdout.write(f"{name}: {'FAILED' if failures else 'SUCCESS'}: {_counts(file)}\n")
        sys.stdout.writelines(f"  {line}\n" for line in failures)
        status = status or int(bool(failures))
    return status


def _counts(file: document.TestFile) -> str:
    checks = sum(len(case.policy_test) for case in file.tests)
    return f"{counted(len(file.tests), 'test')}, {counted(checks, 'moment')}"
