"""The command `plimsoll simulate`: runs the closed loop without and with a policy, and compares both."""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.types import Policy
from evaluator.tools.check import manifests
from evaluator.tools.check.manifests import PoliciesError
from lab.adapters.registry import DESCHEDULING, VERBS
from lab.backtest.inputs.openmetrics import OpenMetricsError
from lab.backtest.inputs.source import BacktestError, span
from lab.closed_loop.loop import ClosedLoop, Timing
from lab.closed_loop.systems import METRICS, DefaultPlugins, Plimsoll, System
from lab.closed_loop.use import Outcome
from lab.closed_loop.workload import Arrivals, Nodes
from lab.interface import Descheduler
from lab.simulate.inputs import InputError, Simulated, from_generator, from_recording
from lab.simulate.report import OUTPUTS, Comparison
from plimsoll import flags
from plimsoll.commandline import Parser
from plimsoll.process import garbage

PROGRAM = "plimsoll simulate"
_LONGEST_SEED = 100
"""Digits."""
_ABOUT = """
Simulates a cluster in a closed loop, once with kube-scheduler's default plugins and once with a policy beside them: placement
decides the use of nodes, use decides readings, and readings decide placement, with the windows of the shipped recording rules.
It uses the evaluator's own decisions and answers, and needs no cluster. All pods name the first policy.
"""
_EXAMPLES = """
example, with generated pods, with traces, and beside recorded use:
  plimsoll simulate -f policy.yaml --load 0.6 --burst
  plimsoll simulate -f policy.yaml --traces day.csv.gz -o html > report.html
  plimsoll simulate -f policy.yaml --openmetrics day.om --arrivals pods.csv

traces: one machine a line, 288 percentages of CPU at 5 minutes. Recorded use: node_cpu_used_cores, as the shipped rules
record it. Arrivals: CSV with the columns arrives, life (seconds), cpu_request, cpu_limit, cpu_use (cores; several numbers:
one for every 5 minutes), memory_request (bytes) and, if pods belong to a ReplicaSet, owner.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit status: 0, or 2 for invalid arguments and unreadable input."""
    command = _parser()
    given = command.parse_args(argv)
    if bool(given.openmetrics) != bool(given.arrivals):
        command.error("--openmetrics and --arrivals need each other")
    if given.openmetrics and given.traces:
        command.error("--traces is for generated pods, not for --openmetrics")
    descheduler = _descheduler(command, given)
    try:
        wanted = [*map(_created, manifests.policies(given.files, any_metric=True))]
        _check(wanted)
        world = _world(given)
        with garbage.rare_collections():
            found = _compare(world, wanted, given, descheduler)
        if given.picture:
            _write(given.picture, found.svg)
    except (BacktestError, InputError, OpenMetricsError, PoliciesError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 2
    sys.stdout.write(OUTPUTS[given.output](found))
    return 0


def _parser() -> Parser:
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    add = command.add_argument
    add(
        "-f",
        "--file",
        dest="files",
        action="append",
        required=True,
        metavar="FILE",
        help="a manifest of policies, or a folder; repeatable; - is standard input",
    )
    add("--weight", type=_count, default=1, metavar="N", help="weight of the extender (1)")
    add("--traces", default="", metavar="FILE", help="traces of pods, instead of generated ones")
    add("--nodes", type=_count, default=60, metavar="N", help="number of nodes (60)")
    add("--cores", type=_positive, default=16.0, metavar="N", help="cores of each node (16)")
    add(
        "--load",
        type=_positive,
        default=0.6,
        metavar="SHARE",
        help="mean demand of all pods as a share of all cores (0.6)",
    )
    add(
        "--requested",
        type=_positive,
        default=1.0,
        metavar="FACTOR",
        help="requests as a multiple of what pods use on average (1)",
    )
    add("--burst", action="store_true", help="a third of the pods at once every half hour")
    add("--for", dest="span", type=_span, default=14400.0, metavar="DURATION", help="time (4h)")
    add("--seed", type=_seed, default=1, metavar="N", help="seed of pods and of ties (1)")
    add(
        "--openmetrics",
        nargs="+",
        action="append",
        metavar="FILE",
        help="OpenMetrics text with the recorded use of nodes, as for backtest; needs --arrivals",
    )
    add("--arrivals", default="", metavar="FILE", help="the pods that arrive beside recorded use")
    add(
        "--from",
        dest="begin",
        default="",
        metavar="TIME",
        help="begin of the recording, as for backtest",
    )
    add(
        "--to", dest="end", default="", metavar="TIME", help="end of the recording, as for backtest"
    )
    add(
        "--nodeLabel",
        dest="node_label",
        default="node",
        metavar="LABEL",
        help="label of the node (node)",
    )
    add("--output", "-o", choices=tuple(OUTPUTS), default="text", help="format of the report")
    add("--picture", default="", metavar="FILE", help="also write the use of each node as SVG")
    if DESCHEDULING is not None:
        flags.add_options(command, DESCHEDULING.options)
    return command


def _descheduler(command: Parser, given: argparse.Namespace) -> Descheduler | None:
    """Return what chooses pods that leave nodes, by the flags; None without."""
    if DESCHEDULING is None:
        return None
    return DESCHEDULING.start(flags.from_namespace(DESCHEDULING.options, command, given, env={}))


def _created(policy: Policy) -> Policy:
    """Return a policy as the API server would have it: in a namespace."""
    return replace(policy, key=PolicyKey(policy.key.namespace or "default", policy.key.name))


def _check(wanted: Sequence[Policy]) -> None:
    """Raise InputError for metrics that no simulation has."""
    for policy in wanted:
        unknown = sorted(m for m in policy.metrics if m.removeprefix("node_") not in METRICS)
        if unknown:
            raise InputError(
                f"policy {policy.key}: {', '.join(unknown)}: not simulated; simulated metrics are {', '.join(sorted(METRICS))}"
            )


def _world(given: argparse.Namespace) -> Simulated:
    if given.openmetrics:
        return from_recording(
            given.openmetrics,
            given.arrivals,
            cores=given.cores,
            node_label=given.node_label,
            begin=given.begin,
            end=given.end,
            step=5.0,
        )
    timing = Timing(end=given.span, warm_up=60.0 * math.floor(given.span / 240))
    arrivals = Arrivals(given.load, given.burst, requested=given.requested, end=timing.end)
    nodes = Nodes(given.nodes, given.cores)
    return from_generator(given.traces, arrivals, nodes, timing, given.seed)


def _compare(
    world: Simulated,
    wanted: Sequence[Policy],
    given: argparse.Namespace,
    descheduler: Descheduler | None,
) -> Comparison:
    with_policy = Plimsoll(
        world.nodes,
        wanted,
        VERBS,
        weight=given.weight,
        descheduler=descheduler,
    )
    return Comparison(
        world.about,
        f"{wanted[0].key} (weight {given.weight})",
        default=_run(world, DefaultPlugins(), given.seed),
        simulated=_run(world, with_policy, given.seed),
        minutes=world.timing.end / 60,
    )


def _run(world: Simulated, system: System, seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    return ClosedLoop(world.nodes, world.pods, system, world.timing, rng, base=world.base).run()


def _write(path: str, text: str) -> None:
    """Write a file. Raises InputError."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--picture {path}: cannot be written: {error.strerror}") from error


def _count(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= value <= 5000:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 5000")
    return value


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_SEED):
        raise argparse.ArgumentTypeError(
            f"must be a whole number, 0 or more, of at most {_LONGEST_SEED} digits"
        )
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError("must be a number above 0, at most 1000")
    return value


def _span(text: str) -> float:
    try:
        seconds: float = span(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 600 <= seconds <= 7 * 86400:
        raise argparse.ArgumentTypeError("must be from 10m to 7d")
    return seconds
