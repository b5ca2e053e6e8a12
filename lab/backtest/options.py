"""Arguments of `plimsoll backtest`."""

import argparse
from collections.abc import Callable
from typing import Any

from evaluator.core.sources.options import header, web_address
from lab.adapters.registry import REPLAYABLE
from lab.backtest import gate
from lab.backtest.inputs import source
from lab.interface import StartReplay
from plimsoll import flags
from plimsoll.commandline import Parser

OUTPUTS = ("text", "json", "csv", "html")
PROGRAM = "plimsoll backtest"
_ABOUT = """
Replays policies on recorded telemetry, and reports what they would have done: which nodes would have violated which rule and
when, how often nodes would have changed, and what would have been written. It uses the evaluator's own rules, durations and
limits, and needs no cluster. It does not simulate that placement changes load.
"""
_EXAMPLES = """
exit status: 0 done, or within every --fail-if; 1 over a --fail-if; 2 for invalid arguments, unreadable input, or with
--fail-if too little data to tell.

example:
  plimsoll backtest -f policy.yaml --prometheus http://localhost:9090 --from 7d
  promtool tsdb dump-openmetrics --match=node_load1 DATA > week.om
  plimsoll backtest -f policy.yaml --openmetrics week.om --from 7d
  plimsoll backtest -f policy.yaml --openmetrics week.om \\
      --fail-if 'violating>20%' --fail-if 'flaps>6/h'
"""


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


def parser() -> Parser:
    """Return the parser of the command."""
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
        action="append",
        metavar="FILE",
        help="OpenMetrics text with timestamps, as promtool tsdb dump-openmetrics writes it; repeatable for several sources, the "
        "preferred one first, as in --metricsSource",
    )
    add(
        "--rules.file",
        dest="rules",
        action="append",
        default=[],
        metavar="GLOB",
        help="recording rules of agents to evaluate over --openmetrics, repeatable; by default those in the files "
        "and folders of --file that record one of their metrics",
    )
    add(
        "--cache",
        default="",
        metavar="DIR",
        help="folder for what was read from --openmetrics as arrays (21 bytes a sample): the next backtest over the same files "
        "and metrics starts at once",
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
        "--prometheusHeader",
        dest="headers",
        action="append",
        type=_of(header),
        default=[],
        metavar="HEADER",
        help="a header of requests, such as the tenant of Mimir: 'X-Scope-OrgID: tenant'; repeatable",
    )
    add(
        "--partial-response",
        dest="partial",
        action="store_true",
        help="accept answers without the data of servers that are down (Thanos, VictoriaMetrics); they are reported",
    )
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
    for replayable in REPLAYABLE:
        flags.add_options(command, replayable.options)
    add(
        "--fail-if",
        action="append",
        type=_of(gate.condition),
        default=[],
        metavar="CONDITION",
        help="exit 1 if a policy exceeds this, such as violating>20%%, flaps>6/h, no-node>0 or trips>0; repeatable",
    )
    add("--output", "-o", choices=OUTPUTS, default="text", help="format of the report")
    add(
        "--faults",
        default="",
        metavar="FILE",
        help="CSV of known faults with the header node,start,end, or with ,policy: the report has precision, recall and time to "
        "detection; times as RFC 3339 or Unix seconds, an empty end if the fault lasts",
    )
    add(
        "--compare",
        action="append",
        default=[],
        metavar="FILE",
        help="policies to replay beside those of -f, on the same samples; repeatable",
    )
    add(
        "--sensitivity",
        action="store_true",
        help="also replay with targets at 80 to 120 percent, and with no, the same and twice the for and clearAfter",
    )
    return command


def replayed(command: Parser, given: argparse.Namespace) -> list[StartReplay]:
    """Return the features to replay, as the flags configure them. Exits with status 2 for an invalid flag."""
    return [
        replayable.start(flags.from_namespace(replayable.options, command, given, env={}))
        for replayable in REPLAYABLE
    ]


def _of(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser for argparse that keeps the message of a ValueError."""

    def parsed(value: str) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _positive(value: str) -> float:
    seconds = source.span(value)
    if seconds <= 0:
        raise ValueError("must be more than 0")
    return seconds
