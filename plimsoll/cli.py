"""The command `plimsoll`: for people, one entry to the subcommands of all programs, as promtool is beside prometheus.

The table names modules as strings and imports one when it is called: this package imports none of those above it.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from plimsoll import programs
from plimsoll.commandline import Parser

PROGRAM = "plimsoll"
_ABOUT = """
Tools for policies: write them, try them, install Plimsoll. The services are
plimsoll-agent and plimsoll-evaluator.
"""


class Subcommand(NamedTuple):
    """A subcommand: `module` has a function `main`, which gets the arguments after the command and returns the exit status.

    `extra`: that of the Python package which it needs. `named`: whether `main` gets the command, too.
    """

    about: str
    module: str
    extra: str
    named: bool = False


def _evaluator(about: str, module: str) -> Subcommand:
    return Subcommand(about, module, "evaluator")


def _agent(about: str, module: str) -> Subcommand:
    return Subcommand(about, module, "agent")


def _sandbox(about: str) -> Subcommand:
    return Subcommand(about, "sandbox.main", "sandbox", named=True)


GROUPS: Mapping[str, Mapping[str, Subcommand]] = {
    "Write policies": {
        "check": _evaluator("check manifests, explain each rule", "evaluator.tools.check.main"),
        "test": _evaluator("run unit tests of policies", "lab.policy_test"),
        "backtest": _evaluator("replay policies on recorded telemetry", "lab.backtest.main"),
        "simulate": _evaluator("run a policy in a simulated cluster", "lab.simulate.main"),
        "record": _evaluator("record what agents report, for backtests", "lab.record"),
    },
    "Write recording rules": {
        "check-rules": _agent("check files of recording rules", "agent.eval.check_rules"),
        "eval": _agent("evaluate a PromQL expression on this machine", "agent.eval.command"),
        "backfill": _agent("evaluate rules over recorded files", "agent.record.backfill"),
        "check-problems": _agent(
            "check configurations of node-problem-detector", "agent.check_problems"
        ),
    },
    "Try it on this machine": {
        "demo": _sandbox("run a demo in a local cluster"),
        "up": _sandbox("start a local cluster, until Ctrl-C"),
        "inject": _sandbox("let a node of it have a fault"),
        "repair": _sandbox("end that fault"),
    },
    "Install and migrate": {
        "configure-scheduler": _evaluator(
            "add the evaluator to kube-scheduler (kubeadm)",
            "evaluator.tools.configure_scheduler.main",
        ),
        "check-apiservice": _evaluator(
            "check the custom metrics API", "evaluator.tools.check_apiservice.main"
        ),
        "adopt-labels": _evaluator(
            "take over the node labels of TAS", "evaluator.tools.adopt_labels"
        ),
        "renew-certificates": _evaluator(
            "replace a CA whose key is gone",
            "evaluator.tools.renew_certificates.main",
        ),
        "clean": _evaluator("remove from all nodes what was written", "evaluator.tools.clean.main"),
    },
}
"""The subcommands by what one wants to do."""

SUBCOMMANDS: Mapping[str, Subcommand] = {
    name: found for group in GROUPS.values() for name, found in group.items()
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; return its exit status."""
    given = sys.argv[1:] if argv is None else argv
    if not given or given[0] not in SUBCOMMANDS:
        return _without_subcommand(given)
    name, arguments = given[0], given[1:]
    found = SUBCOMMANDS[name]
    return programs.run(
        f"{PROGRAM} {name}",
        found.module,
        found.extra,
        [name, *arguments] if found.named else arguments,
    )


def _without_subcommand(given: Sequence[str]) -> int:
    parser = Parser(
        PROGRAM,
        about=_ABOUT,
        examples=_listed(),
        usage=f"{PROGRAM} COMMAND ...",
        commands=SUBCOMMANDS,
    ).with_version()
    if given and not given[0].startswith("-"):
        parser.error(f"unknown command {given[0]!r}")
    parser.parse_args(given)
    parser.print_help()
    return 0


def _listed() -> str:
    """Return a line for each subcommand, below the heading of its group."""
    lines: list[str] = []
    for title, group in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<21}{found.about}" for name, found in group.items()), ""]
    return "\n".join([*lines, f"Each has its own help: {PROGRAM} COMMAND --help"])
