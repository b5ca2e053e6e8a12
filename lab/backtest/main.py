"""The command `plimsoll backtest`: replays policies, writes the report, returns the exit status."""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from evaluator.core.policy.types import Policy
from evaluator.core.sources.prometheus import Access, Queries, QueriesError
from evaluator.core.tls import TlsError
from evaluator.tools.check import manifests
from evaluator.tools.check.manifests import PoliciesError
from lab.backtest import gate, text
from lab.backtest.inputs import rules
from lab.backtest.inputs.dump import read_sources
from lab.backtest.inputs.openmetrics import OpenMetricsError
from lab.backtest.inputs.prometheus import PrometheusHistory
from lab.backtest.inputs.rules import Rules
from lab.backtest.inputs.source import BacktestError, Request, Source, names_of
from lab.backtest.options import PROGRAM, parser, replayed
from lab.backtest.page import as_html
from lab.backtest.text import as_csv
from lab.interface import StartReplay
from lab.replay import faults
from lab.replay.faults import Fault, FaultsError
from lab.replay.replay import Timing
from lab.replay.report import report, sensitivity
from lab.replay.run import Backtest, longest, variants, warm_up
from plimsoll import rfc3339
from plimsoll.files import userfile
from plimsoll.process import garbage
from plimsoll.text import printable

_WIDTH = 30


class Progress:
    """The part of a replay that is done; written to standard error."""

    def __init__(self, begin: float, end: float) -> None:
        self._begin = begin
        self._end = end
        self._shown = -1

    def show(self, now: float) -> None:
        """Show how far the replay is (Unix seconds); writes only when a percent is done."""
        percent = int(100 * (now - self._begin) / max(self._end - self._begin, 1e-9))
        if percent != self._shown:
            self._shown = percent
            bar = ("#" * (percent * _WIDTH // 100)).ljust(_WIDTH)
            sys.stderr.write(f"\r[{bar}] {percent:3d} % {rfc3339.seconds(now)}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the bar."""
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    command = parser()
    given = command.parse_args(argv)
    features = replayed(command, given)
    if given.stale_after < given.step:
        command.error("--staleAfter must be at least --step, or every reading is stale")
    if given.prometheus and given.cache:
        command.error("--cache is for --openmetrics")
    if given.prometheus and given.rules:
        command.error(
            "--rules.file is for --openmetrics: with --prometheus, name the expression in --prometheusQueries"
        )
    if given.prometheus and not given.begin:
        command.error("--prometheus needs --from, such as --from 7d")
    try:
        wanted = manifests.policies(given.files)
        known = _faults(given.faults)
        source = _source(given, wanted)
        try:
            with garbage.rare_collections():
                result = _run(wanted, source, given, features, known)
        finally:
            source.close()
        sys.stdout.write(_OUTPUTS[given.output](result))
    except (
        BacktestError,
        OpenMetricsError,
        PoliciesError,
        QueriesError,
        TlsError,
        FaultsError,
    ) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 2
    if not given.fail_if:
        for line in gate.too_little_data(result):
            sys.stderr.write(f"{PROGRAM}: too little data: {printable(line)}\n")
        return 0
    status, reasons = gate.verdict(result, given.fail_if)
    for line in reasons:
        why = "over the limit" if status == gate.OVER else "too little data"
        sys.stderr.write(f"{PROGRAM}: {why}: {printable(line)}\n")
    return status


def _source(given: argparse.Namespace, wanted: Sequence[Policy]) -> Source:
    """Open the source that the arguments name. Raises BacktestError, OpenMetricsError, QueriesError, TlsError."""
    timing = Timing(given.step, given.stale_after)
    if given.compare:
        wanted = [*wanted, *manifests.policies(given.compare)]
    request = Request(
        frozenset[str]().union(*(policy.base_metrics for policy in wanted)),
        given.begin,
        given.end,
        given.step,
        given.stale_after,
        warm_up(wanted, timing) * (2 if given.sensitivity else 1),
        given.node_label,
    )
    if not given.prometheus:
        own = _rules(given, names_of(request.metrics))
        return read_sources(given.openmetrics, request, rules=own, cached=given.cache)
    access = Access(
        given.prometheus,
        token_file=given.token_file,
        user=given.user,
        password_file=given.password_file,
        cacert=given.cacert,
        headers=tuple(given.headers),
    )
    history = PrometheusHistory(
        access,
        Queries(given.queries),
        request,
        timeout=given.source_timeout,
        partial=given.partial,
    )
    try:
        history.open()
    except BaseException:
        history.close()
        raise
    return history


def _faults(name: str) -> list[Fault] | None:
    """Return the faults of a file; None without one. Raises BacktestError, FaultsError."""
    if not name:
        return None
    try:
        return faults.read(userfile.read_text(name).splitlines())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise BacktestError(f"--faults {name}: cannot be read: {reason}") from error
    except FaultsError as error:
        raise FaultsError(f"--faults {name}: {error}") from error


def _rules(given: argparse.Namespace, names: Collection[str]) -> Rules:
    """Return the recording rules of --rules.file, else those in files and folders of the policies. Raises BacktestError."""
    if given.rules:
        return rules.named(given.rules, names)
    own = rules.among([*given.files, *given.compare], names)
    if own.records:
        sys.stderr.write(
            f"{PROGRAM}: {', '.join(sorted(own.records))} by the recording rules of {printable(', '.join(own.files))}\n"
        )
    return own


def _run(
    wanted: Sequence[Policy],
    source: Source,
    given: argparse.Namespace,
    features: Sequence[StartReplay],
    known: Sequence[Fault] | None,
) -> dict[str, Any]:
    """Replay policies and return the report as JSON values."""
    progress = Progress(source.start, source.period.end) if sys.stderr.isatty() else None

    def backtest(replayed: Sequence[Policy], *, show: bool = False) -> Backtest:
        return Backtest(
            replayed,
            source.nodes,
            Timing(given.step, given.stale_after),
            source.period,
            start=source.start,
            sources=source.sources,
            features=features,
            progress=progress.show if progress and show else lambda _now: None,
        )

    main_run = backtest(wanted, show=True)
    other = backtest(manifests.policies(given.compare)) if given.compare else None
    tried = [*variants(wanted)] if given.sensitivity else []
    runs = [backtest(run.policies) for run in tried]
    everything = [main_run, *([other] if other else []), *runs]
    for part, until in source.parts():
        for run in everything:
            run.run(part, until)
    if progress:
        progress.clear()
    result = report(main_run.result(source.allocatable), known) | {"warnings": [*source.warnings]}
    if other:
        result["compared"] = report(other.result(source.allocatable), known)["policies"]
    if tried:
        results = [run.result(source.allocatable) for run in runs]
        result["sensitivity"] = sensitivity(tried, results, longest(wanted))
    return result


_OUTPUTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text": text.as_text,
    "csv": as_csv,
    "html": as_html,
    "json": lambda found: json.dumps(found, indent=2, allow_nan=False) + "\n",
}
