"""The command `plimsoll-evaluator backtest`: parses arguments, replays, writes the report, returns the exit status."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluator.backtest.replay import Timing
from evaluator.backtest.report import report
from evaluator.backtest.run import ALL_ACTIONS, Backtest, warm_up
from evaluator.cli.backtest import gate, policies, text, times
from evaluator.cli.backtest.openmetrics import OpenMetricsError
from evaluator.cli.backtest.policies import PoliciesError
from evaluator.cli.backtest.progress import Progress
from evaluator.cli.backtest.prometheus import PrometheusHistory
from evaluator.cli.backtest.source import BacktestError, Request, Source, read_files
from evaluator.policy.actions.types import CLUSTER_LIMIT, node_limit
from evaluator.policy.types import Policy
from evaluator.sources.options import web_address
from evaluator.sources.prometheus import Access
from evaluator.sources.queries import Queries, QueriesError
from evaluator.tls.reload import TlsError
from plimsoll.commandline import Parser

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
  plimsoll-evaluator backtest -f policy.yaml --prometheus http://localhost:9090 --from 7d
  promtool tsdb dump-openmetrics --match='{__name__=~"node_load1|kube_node_.*"}' DATA > week.om
  plimsoll-evaluator backtest -f policy.yaml --openmetrics week.om --from 7d
  plimsoll-evaluator backtest -f policy.yaml --openmetrics week.om --fail-if 'violating>20%' --fail-if 'flaps>6/h'
"""


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    command = _parser()
    given = command.parse_args(argv)
    if given.stale_after < given.step:
        command.error("--staleAfter must be at least --step, or every reading is stale")
    if given.prometheus and not given.begin:
        command.error("--prometheus needs --from, such as --from 7d")
    try:
        wanted = policies.read(given.files)
        source = _source(given, wanted)
        try:
            found = _run(wanted, source, given)
        finally:
            if isinstance(source, PrometheusHistory):
                source.close()
        sys.stdout.write(_OUTPUTS[given.output](found))
    except (BacktestError, OpenMetricsError, PoliciesError, QueriesError, TlsError) as error:
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


_PROMETHEUS = (
    (
        "--prometheusQueries",
        "queries",
        "FILE",
        "as the evaluator's flag: maps metric names to PromQL",
    ),
    ("--prometheusTokenFile", "token_file", "FILE", "file with a bearer token for Prometheus"),
    ("--prometheusUser", "user", "NAME", "user for Prometheus, with --prometheusPasswordFile"),
    ("--prometheusPasswordFile", "password_file", "FILE", "file with that user's password"),
    ("--prometheusCacert", "cacert", "FILE", "the CA that signed Prometheus' certificate"),
)
"""Flags of the connection, as the evaluator has them."""


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
    sources = command.add_mutually_exclusive_group(required=True)
    sources.add_argument(
        "--prometheus",
        type=_of(web_address),
        metavar="URL",
        help="Prometheus, Thanos, Mimir or VictoriaMetrics, without /api/v1",
    )
    sources.add_argument(
        "--openmetrics",
        nargs="+",
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
    for flag, name, metavar, text_ in _PROMETHEUS:
        add(flag, dest=name, default="", metavar=metavar, help=text_)
    add(
        "--sourceTimeout",
        dest="source_timeout",
        type=_of(_positive),
        default=60.0,
        metavar="DURATION",
        help="timeout of one query (1m)",
    )
    add(
        "--prometheusNodeLabel",
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


def _source(given: argparse.Namespace, wanted: Sequence[Policy]) -> Source:
    """Open the source that the arguments name. Raises BacktestError, OpenMetricsError, QueriesError, TlsError."""
    timing = Timing(given.step, given.stale_after)
    request = Request(
        frozenset[str]().union(*(policy.metrics for policy in wanted)),
        given.begin,
        given.end,
        given.step,
        given.stale_after,
        warm_up(wanted, timing),
        given.node_label,
    )
    if not given.prometheus:
        return read_files(given.openmetrics, request)
    access = Access(
        given.prometheus,
        token_file=given.token_file,
        user=given.user,
        password_file=given.password_file,
        cacert=given.cacert,
    )
    history = PrometheusHistory(
        access, Queries(given.queries), request, timeout=given.source_timeout
    )
    try:
        history.open()
    except BaseException:
        history.close()
        raise
    return history


def _run(wanted: Sequence[Policy], source: Source, given: argparse.Namespace) -> dict[str, Any]:
    """Replay policies and return the report as JSON values."""
    progress = Progress(source.start, source.period.end) if sys.stderr.isatty() else None
    backtest = Backtest(
        wanted,
        source.nodes,
        Timing(given.step, given.stale_after),
        source.period,
        start=source.start,
        actions=replace(ALL_ACTIONS, most=given.max_acted_nodes),
        progress=progress.show if progress else lambda _now: None,
    )
    for part, until in source.parts():
        backtest.run(part, until)
    if progress:
        progress.clear()
    return report(backtest.result(source.allocatable))


_OUTPUTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text": text.as_text,
    "json": lambda found: json.dumps(found, indent=2, allow_nan=False) + "\n",
}
