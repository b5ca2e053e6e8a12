"""The command `plimsoll test`: runs test files, compares decisions with what is expected, prints failures.

A test file has policies, input series, and what policies are expected to decide at which times. Series are in the notation of
`promtool test rules`, such as `0+10x30 _x3 stale`:
https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series
"""

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from evaluator.core.model.names import UNREADABLE
from evaluator.core.model.node_index import NodeIndex, union
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.strategies import STRATEGIES
from evaluator.core.policy.types import Policy
from evaluator.core.sources.answer import named
from evaluator.tools.check import manifests
from evaluator.tools.check.manifests import PoliciesError
from lab.backtest.inputs import source
from lab.backtest.inputs.openmetrics import OpenMetricsError
from lab.backtest.inputs.source import metrics_by_name
from lab.replay.replay import Replay, Timing
from lab.replay.samples import Recording, Series, merged
from plimsoll import strictyaml
from plimsoll.commandline import Parser
from plimsoll.files import userfile
from plimsoll.recording import series
from plimsoll.text import SentenceError, counted, shown

STALE = None
"""A stale marker: the metric is absent from here on."""
MOST_VALUES = 1_000_000
"""Values of one series."""

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?[iI]nf|[nN]a[nN]"
_VALUES = re.compile(
    rf"({_NUMBER})(?:([-+](?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?))?(?:x(\d{{1,7}}))?"
)
_GAP = re.compile(r"_(?:x(\d{1,7}))?")
T = TypeVar("T")
PROGRAM = "plimsoll test"
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


class TestFileError(SentenceError):
    """A test file cannot be used."""

    __test__ = False


class InputSeries(msgspec.Struct, forbid_unknown_fields=True):
    """A series with its labels, and its values in promtool's notation."""

    series: str
    values: str


class Expectation(msgspec.Struct, forbid_unknown_fields=True):
    """What a policy is expected to decide at a time. Absent expectations are not checked.

    `exp_nodes`: the nodes in violation of `strategy`, of any strategy if that is empty. `exp_reasons`: node → the text that
    kube-scheduler shows. `exp_labels`: node → the labels of this policy.
    """

    eval_time: str
    policy: str
    strategy: str = ""
    exp_nodes: list[str] | None = None
    exp_reasons: dict[str, str] | None = None
    exp_labels: dict[str, dict[str, str]] | None = None


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """One test."""

    input_series: list[InputSeries]
    policy_test: list[Expectation]
    name: str = ""
    interval: str = ""


class TestFile(msgspec.Struct, forbid_unknown_fields=True):
    """A test file. `evaluation_interval` and `stale_after` are as `--step` and `--staleAfter` of `backtest`."""

    __test__ = False

    policy_files: list[str]
    tests: list[Case]
    evaluation_interval: str = "1m"
    stale_after: str = "5m"


def read_file(name: str) -> TestFile:
    """Return the test file; policy files are relative to it. Raises TestFileError."""
    try:
        text = userfile.read_text(name)
        body: Any = strictyaml.load_json(text)
    except UnicodeDecodeError as error:
        raise TestFileError(f"{name}: not a text file") from error
    except OSError as error:
        raise TestFileError(f"{name}: cannot be read: {error.strerror}") from error
    except strictyaml.MalformedError as error:
        raise TestFileError(f"{name}: invalid YAML: {error}") from error
    try:
        test_file = msgspec.convert(body, TestFile)
    except UNREADABLE as error:
        raise TestFileError(f"{name}: {error}") from error
    test_file.policy_files = [str(Path(name).parent / file) for file in test_file.policy_files]
    return test_file


def series_values(text: str) -> list[tuple[int, float | None]]:
    """Return (number of the interval, value) pairs; gaps are left out, a stale marker is STALE. Raises ValueError."""
    numbered: list[tuple[int, float | None]] = []
    position = 0
    for item in text.split():
        if (gap := _GAP.fullmatch(item)) is not None:
            position += int(gap[1] or 1)
            continue
        for value in _expanded(item):
            numbered.append((position, value))
            position += 1
            if len(numbered) > MOST_VALUES:
                raise ValueError(f"more than {MOST_VALUES} values")
    return numbered


def _expanded(item: str) -> Iterator[float | None]:
    if item == "stale":
        yield STALE
        return
    match = _VALUES.fullmatch(item)
    if match is None or (match[2] and not match[3]):
        raise ValueError(
            f"not a value: {shown(item)} (write 1, 0+10x30, 5x3, _ or _x3 for no sample, or stale)"
        )
    begin, difference = float(match[1]), float(match[2] or 0)
    for number in range(int(match[3] or 0) + 1):
        yield begin + number * difference if number and not math.isinf(begin) else begin


def failures(file: TestFile) -> Iterator[str]:
    """Yield what differs from the expectations. Raises TestFileError."""
    try:
        wanted = manifests.policies(file.policy_files, any_metric=True)
    except PoliciesError as error:
        raise TestFileError(str(error)) from error
    step = _parsed("evaluation_interval", source.span, file.evaluation_interval)
    stale_after = _parsed("stale_after", source.span, file.stale_after)
    if not 0 < step <= stale_after:
        raise TestFileError("evaluation_interval must be more than 0 and at most stale_after")
    for number, case in enumerate(file.tests, start=1):
        where = case.name or f"test {number}"
        interval = (
            _parsed(f"{where}: interval", source.span, case.interval) if case.interval else step
        )
        if not interval > 0:
            raise TestFileError(f"{where}: interval must be more than 0")
        recording = _recording(where, case, wanted, interval, stale_after)
        yield from _run(where, case, wanted, recording, Timing(step, stale_after))


def _recording(
    where: str, case: Case, wanted: Sequence[Policy], interval: float, stale_after: float
) -> Recording:
    """Return the input series as a recording that begins at time 0."""
    metrics = frozenset[str]().union(*(policy.base_metrics for policy in wanted))
    by_metric: dict[str, list[_Input]] = {m: [] for m in metrics}
    by_name = metrics_by_name(metrics)
    known = set[str]()
    for given in case.input_series:
        label = f"{where}: series {given.series}"
        name, labels = _parsed(label, series.parse, given.series)
        node = named(labels, "node")
        if node is None:
            raise TestFileError(f"{label}: it has no label node or instance")
        known.add(node)
        for metric in by_name.get(name, ()):
            by_metric[metric].append(
                _Input(name, node, _parsed(label, series_values, given.values))
            )
    nodes = NodeIndex(sorted(known))
    return Recording(
        nodes,
        {
            metric: merged(
                [
                    _series(nodes.position[one.node], one.values, interval)
                    for one in _named(metric, own)
                ],
                stale_after,
            )
            for metric, own in by_metric.items()
        },
    )


class _Input(NamedTuple):
    """An input series: its name, its node and its values."""

    name: str
    node: str
    values: list[tuple[int, float | None]]


def _named(metric: str, own: Sequence[_Input]) -> Iterator[_Input]:
    """Yield the series with the metric's own name; of nodes without one those with or without `node_`."""
    named = {one.node for one in own if one.name == metric}
    return (one for one in own if one.name == metric or one.node not in named)


def _series(node: int, pairs: Sequence[tuple[int, float | None]], interval: float) -> Series:
    return Series(
        node,
        np.array([interval * number for number, _ in pairs], np.float64),
        np.array([np.nan if value is None else value for _, value in pairs], np.float64),
        np.array([value is not None for _, value in pairs], np.int32),
    )


def _run(
    where: str, case: Case, wanted: Sequence[Policy], recording: Recording, timing: Timing
) -> Iterator[str]:
    replay = Replay(wanted, recording.nodes, timing, start=0.0)
    timed = [
        (_parsed(f"{where}: eval_time", source.span, e.eval_time), e) for e in case.policy_test
    ]
    decisions = Decisions()
    for at, expected in sorted(timed, key=lambda pair: pair[0]):
        for step in replay.run(recording, at):
            decisions = step.decisions
        decision = _decision(where, expected, decisions)
        unknown = {*(expected.exp_nodes or ()), *(expected.exp_reasons or ())} - {*recording.nodes}
        for node in sorted(unknown):
            raise TestFileError(f"{where}: node {node} is not in the input series")
        for text in _differences(decision, recording.nodes, expected):
            yield f"{where}: policy {expected.policy} at {expected.eval_time}: {text}"


def _decision(where: str, expected: Expectation, decisions: Decisions) -> Decision:
    matching = [
        candidate
        for key, candidate in decisions.policies.items()
        if expected.policy in (key.name, f"{key.namespace}/{key.name}")
    ]
    if len(matching) != 1:
        known = ", ".join(f"{key.namespace}/{key.name}" for key in decisions.policies)
        raise TestFileError(f"{where}: policy {expected.policy} is not one of {known}")
    (decision,) = matching
    if expected.strategy and expected.strategy not in decision.states:
        known = ", ".join(decision.states)
        raise TestFileError(
            f"{where}: strategy {expected.strategy} is not one of policy {expected.policy} ({known})"
        )
    return decision


def _differences(decision: Decision, nodes: NodeIndex, expected: Expectation) -> Iterator[str]:
    """Yield how a decision differs from what is expected."""
    if expected.exp_nodes is not None:
        names = [STRATEGIES[expected.strategy]] if expected.strategy else [*decision.states]
        violated = union((decision.states[name].found.violated for name in names), nodes)
        actual = nodes.names_at(violated)
        if actual != sorted(expected.exp_nodes):
            yield f"exp_nodes: {_list(expected.exp_nodes)}, got: {_list(actual)}"
    if expected.exp_reasons is not None:
        violations = [*decision.violations.values()]
        if expected.strategy:
            violations = [decision.violations.get(STRATEGIES[expected.strategy], {})]
        for node, text in expected.exp_reasons.items():
            reason = next((of[node] for of in violations if node in of), "no violation")
            if reason != text:
                yield f"exp_reasons of {node}: {text!r}, got: {reason!r}"
    if expected.exp_labels is not None:
        labels = {node: dict(own) for node, own in decision.labels.items()}
        if labels != expected.exp_labels:
            yield f"exp_labels: {expected.exp_labels}, got: {labels}"


def _list(nodes: Sequence[str]) -> str:
    return ", ".join(sorted(nodes)) or "none"


def _parsed(where: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except (OpenMetricsError, ValueError) as error:
        raise TestFileError(f"{where}: {error}") from error


def main(argv: Sequence[str]) -> int:
    """Run the test files in the arguments; return the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    command.add_argument("files", nargs="+", metavar="FILE", help="a test file")
    status = 0
    for name in command.parse_args(argv).files:
        try:
            file = read_file(name)
            failed = [*failures(file)]
        except TestFileError as error:
            sys.stderr.write(f"{PROGRAM}: {error}\n")
            status = 2
            continue
        sys.stdout.write(f"{name}: {'FAILED' if failed else 'SUCCESS'}: {_counts(file)}\n")
        sys.stdout.writelines(f"  {line}\n" for line in failed)
        status = status or int(bool(failed))
    return status


def _counts(file: TestFile) -> str:
    checks = sum(len(case.policy_test) for case in file.tests)
    return f"{counted(len(file.tests), 'test')}, {counted(checks, 'moment')}"
