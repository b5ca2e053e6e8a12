"""The command `plimsoll-evaluator backtest`: parses arguments, replays, writes the report, returns the exit status."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluator.backtest.intervals import Period
from evaluator.backtest.replay import Timing
from evaluator.backtest.report import report
from evaluator.backtest.run import ALL_ACTIONS, Backtest, warm_up
from evaluator.cli.backtest import gate, policies, text, times
from evaluator.cli.backtest.openmetrics import OpenMetricsError, SeriesTable
from evaluator.cli.backtest.policies import PoliciesError
from evaluator.cli.backtest.progress import Progress
from evaluator.cli.backtest.recording import Recorded, names_of, recorded
from evaluator.policy.actions.types import CLUSTER_LIMIT, node_limit
from evaluator.policy.types import Policy
from plimsoll.commandline import Parser
from plimsoll.text import SentenceError

PROGRAM = "plimsoll-evaluator backtest"
_ABOUT = """
Replays policies on recorded telemetry, and reports what they would have done: which nodes would have violated which rule and
when, how often nodes would have changed, and what would have been written. It uses the evaluator's own rules, durations and
limits, and needs no cluster. It does not simulate that placement changes load.
"""
_EXAMPLES = """
exit status: 0 done, or within every --fail-if; 1 over a --fail-if; 2 for invalid arguments, unreadable input, or with
--fail-if too little data to tell.

example:
  promtool tsdb dump-openmetrics --match='{__name__=~"node_load1|kube_node_.*"}' DATA > week.om
  plimsoll-evaluator backtest -f policy.yaml --openmetrics week.om --from 7d
  plimsoll-evaluator backtest -f policy.yaml --openmetrics week.om --fail-if 'violating>20%' --fail-if 'flaps>6/h'
"""


class BacktestError(SentenceError):
    """The backtest cannot run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Input:
    """Where and when a backtest reads: a recording, the range, and the start of the warm-up before it."""

    recorded: Recorded
    period: Period
    start: float


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    command = _parser()
    given = command.parse_args(argv)
    if given.stale_after < given.step:
        command.error("--staleAfter must be at least --step, or every reading is stale")
    timing = Timing(given.step, given.stale_after)
    try:
        wanted = policies.read(given.files)
        source = _from_files(given, wanted, timing)
        found = run(wanted, source, timing, _progress(source), most=given.max_acted_nodes)
        sys.stdout.write(_written(found, given.output))
    except (BacktestError, OpenMetricsError, PoliciesError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 2
    if not given.fail_if:
        for line in gate.too_little_data(found):
            sys.stderr.write(f"{PROGRAM}: too little data: {line}\n")
        return 0
    status, reasons = gate.verdict(found, given.fail_if)
    for line in reasons:
        why = "over the limit" if status == gate.OVER else "too little data"
        sys.stderr.write(f"{PROGRAM}: {why}: {line}\n")
    return status


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
    add(
        "--openmetrics",
        nargs="+",
        required=True,
        metavar="FILE",
        help="OpenMetrics text with timestamps, as promtool tsdb dump-openmetrics writes it",
    )
    add(
        "--from",
        dest="begin",
        default="",
        metavar="TIME",
        help="begin: RFC 3339, Unix seconds, or a time before the end, such as 7d; by default the first sample",
    )
    add("--to", dest="end", default="", metavar="TIME", help="end; by default the last sample")
    add(
        "--step",
        type=_of(_positive),
        default=15.0,
        metavar="DURATION",
        help="time between two evaluations (15s)",
    )
    add(
        "--staleAfter",
        dest="stale_after",
        type=_of(_positive),
        default=300.0,
        metavar="DURATION",
        help="age from which a sample counts as missing (5m, Prometheus' own; agents: 30s)",
    )
    add(
        "--nodeLabel",
        dest="node_label",
        default="node",
        metavar="LABEL",
        help="the label of a series that has the node's name; without it, its `instance` counts (node)",
    )
    add(
        "--maxActedNodes",
        dest="max_acted_nodes",
        type=_of(node_limit),
        default=CLUSTER_LIMIT,
        metavar="N|N%",
        help=f"as the evaluator's flag ({CLUSTER_LIMIT})".replace("%", "%%"),
    )
    add(
        "--fail-if",
        action="append",
        type=_of(gate.condition),
        default=[],
        metavar="CONDITION",
        help="exit 1 if a policy exceeds this, such as violating>20%%, flaps>6/h, no-node>0 or trips>0; repeatable",
    )
    add("--output", "-o", choices=("text", "json"), default="text", help="format of the report")
    return command


def _of(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser for argparse that keeps the message of a ValueError."""

    def parsed(value: str) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error).replace("%", "%%")) from error

    return parsed


def _positive(value: str) -> float:
    seconds = times.span(value)
    if seconds <= 0:
        raise ValueError("must be more than 0")
    return seconds


def run(
    wanted: Sequence[Policy],
    source: Input,
    timing: Timing,
    progress: Progress | None = None,
    *,
    most: Any = CLUSTER_LIMIT,
) -> dict[str, Any]:
    """Replay policies and return the report as JSON values."""
    backtest = Backtest(
        wanted,
        source.recorded.recording.nodes,
        timing,
        source.period,
        start=source.start,
        actions=replace(ALL_ACTIONS, most=most),
        progress=progress.show if progress else lambda _now: None,
    )
    backtest.run(source.recorded.recording, source.period.end)
    if progress:
        progress.clear()
    return report(backtest.result(source.recorded.allocatable))


def _from_files(given: argparse.Namespace, wanted: Sequence[Policy], timing: Timing) -> Input:
    """Read OpenMetrics files. Raises BacktestError, OpenMetricsError."""
    metrics = frozenset[str]().union(*(policy.metrics for policy in wanted))
    table = SeriesTable(names_of(metrics).__contains__)
    for name in given.openmetrics:
        try:
            with Path(name).open("rb") as file:
                table.read(name, file)
        except OSError as error:
            raise BacktestError(f"{name}: cannot be read: {error.strerror}") from error
    found = recorded(table.series, metrics, given.node_label, timing.stale_after)
    span = found.recording.span
    if span is None:
        files, names = ", ".join(given.openmetrics), ", ".join(sorted(metrics))
        raise BacktestError(
            f"{files}: of {table.lines:,} lines, none is a sample of {names} on a node: dump these series, with their labels "
            "node or instance"
        )
    period = _period(given, span)
    start = max(period.begin - warm_up(wanted, timing), min(span[0], period.begin))
    return Input(found, period, start)


def _period(given: argparse.Namespace, span: tuple[float, float]) -> Period:
    """Return the range. Raises BacktestError."""
    try:
        end = times.moment(given.end, span[1]) if given.end else span[1]
        begin = times.moment(given.begin, end) if given.begin else span[0]
    except ValueError as error:
        raise BacktestError(f"--from or --to: {error}") from error
    if not begin < end:
        raise BacktestError("--from is not before --to: the range is empty")
    return Period(begin, end)


def _progress(source: Input) -> Progress | None:
    return Progress(source.start, source.period.end) if sys.stderr.isatty() else None


_OUTPUTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text": text.as_text,
    "json": lambda found: json.dumps(found, indent=2, allow_nan=False) + "\n",
}


def _written(found: Mapping[str, Any], output: str) -> str:
    return _OUTPUTS[output](found)
