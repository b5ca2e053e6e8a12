"""The command `plimsoll backfill`: recording rules over recorded files, so that a backtest can use their results."""

import io
import math
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from agent.rules import options as rule_options
from agent.rules.files import RuleFileReader
from agent.rules.groups import dependencies
from agent.rules.groups.file import Group
from agent.rules.groups.group import RunningGroup
from agent.rules.groups.tick import Tick, TickResult, by_metric
from agent.rules.promql.labels import NAME, Labels
from agent.rules.storage import exposition
from agent.rules.storage.exposition import ExpositionError
from agent.rules.storage.shared_head import SharedHead
from agent.scrape.exposition import recorded_lines
from collectors.interface.sample import Family, Sample
from plimsoll import durations, flags, logs
from plimsoll.commandline import Parser
from plimsoll.files import userfile
from plimsoll.recording.options import metric_names
from plimsoll.recording.series import NODE, host
from plimsoll.text import SentenceError

PROGRAM = "plimsoll backfill"
_ABOUT = """
Evaluates recording rules over OpenMetrics files as the agents of these nodes would have, and prints the results as OpenMetrics:
input for plimsoll backtest, so that a rule and its policy are tested together.
"""
_EXAMPLES = """
example:
  plimsoll backfill --rules.file=rules.yaml week.om > recorded.om
  plimsoll backtest -f policy.yaml --openmetrics week.om recorded.om

exit status: 0, 1 if a file cannot be read, a rule is invalid or no sample names a node, 2 for invalid flags.
"""
_NAME = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)[{ ]", re.ASCII)
_OF_SCRAPE = {NODE, "instance", "job"}
"""Labels that an agent's own samples do not have."""
_UNNAMED = "no sample names a node: dump the series with their label node or instance, before they are aggregated"
_STEP = 60_000
"""Default step of subqueries (ms)."""

Samples = Iterable[tuple[Labels, int | None, float]]
"""Label sets with the name, times in ms, values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The agent's flags that matter here."""

    ranges: str = rule_options.ranges()


class BackfillError(SentenceError):
    """A file or rule cannot be used."""


def main(argv: Sequence[str]) -> int:
    """Evaluate and print; return the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    command.add_argument("files", nargs="+", metavar="FILE", help="OpenMetrics with timestamps")
    command.add_argument(
        "--rules.file",
        dest="rules",
        action="append",
        required=True,
        metavar="GLOB",
        help="rule files",
    )
    command.add_argument(
        "--metrics",
        default="",
        metavar="NAMES",
        help="metrics to record, separated by commas; rules that they depend on are evaluated too; by default all",
    )
    command.add_argument(
        "--every",
        default="15s",
        metavar="DURATION",
        help="time between two evaluations (default 15s)",
    )
    flags.add_options(command, Options)
    given = command.parse_args(argv)
    closed = flags.from_namespace(Options, command, given, env={}).ranges == "closed"
    try:
        every = round(1000 * durations.duration(given.every))
    except ValueError as error:
        command.error(f"--every: {error}")
    if every < 1:
        command.error("--every must be more than 0")
    try:
        metrics = metric_names(given.metrics)
    except ValueError as error:
        command.error(f"--metrics: {error}")
    logs.setup("warn", "logfmt")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # into `head`: end as other programs do
    try:
        _run(given.rules, given.files, every, metrics, closed)
    except (BackfillError, ExpositionError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    return 0


def _run(
    rules: Sequence[str], files: Sequence[str], every: int, metrics: frozenset[str], closed: bool
) -> None:
    """Print the results. Raises BackfillError, ExpositionError."""
    reader = RuleFileReader(rules)
    rule_file = reader.look()
    if rule_file is None or not rule_file.groups or reader.errors:
        why = next((error.text for error in reader.errors.values()), "no rules")
        raise BackfillError(f"{', '.join(rules)}: {why}")
    for error in rule_file.errors:
        raise BackfillError(f"rule {error.rule} of {error.group}: {error.text}")
    groups = (
        [*dependencies.excerpts(rule_file.groups, metrics).values()]
        if metrics
        else rule_file.groups
    )
    selectors = [need.selector for group in groups for need in dependencies.needs(group)]

    @cache
    def needed(metric: str) -> bool:
        return any(dependencies.may_name(selector, metric) for selector in selectors)

    samples = [sample for name in files for sample in _samples(name, needed)]
    for part in backfill(samples, groups, every, closed=closed):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.write(b"# EOF\n")
    sys.stdout.flush()


def _samples(name: str, needed: Callable[[str], bool]) -> Samples:
    """Return the samples of a file, without those that no rule needs."""
    try:
        with io.TextIOWrapper(userfile.open_binary(name), encoding="utf-8") as file:
            lines = [line if _may_be(line, needed) else "\n" for line in file]
    except OSError as error:
        raise BackfillError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BackfillError(f"{name} is not text") from error
    content = "".join(lines)
    return exposition.parse(content if content.endswith("# EOF\n") else f"{content}# EOF\n").samples


def _may_be(line: str, needed: Callable[[str], bool]) -> bool:
    """Return whether a line may be a sample of a needed metric, or is an error."""
    name = _NAME.match(line)
    return name is None or needed(name[1])


def backfill(
    samples: Samples, groups: Sequence[Group], every: int, *, closed: bool = False
) -> Iterator[bytes]:
    """Yield the results of rules as OpenMetrics lines. `every`: ms between two evaluations; `closed`: see `Moment`.

    A node is the label `node`, else the host of `instance`. Samples count at the first evaluation after them; NaN ends a series.
    Raises BackfillError if there are samples and none names a node.
    """
    by_node: dict[str, dict[int, dict[tuple[str, Labels], float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    unnamed = 0
    for labels, time, value in samples:
        own = dict(labels)
        node = own.get(NODE) or host(own.get("instance", ""))
        if time is None or not node:
            unnamed += not node
            continue
        tick, key = by_node[node][-(-time // every) * every], (own[NAME], tuple(_own(own)))
        if math.isnan(value):  # a stale marker in promtool's dump: the series ends
            tick.pop(key, None)
        else:
            tick[key] = value
    if unnamed and not by_node:
        raise BackfillError(_UNNAMED)
    for node, ticks in sorted(by_node.items()):
        yield from _node(node, ticks, groups, closed)


def _own(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the labels as the agent has them; `exported_node` is its own label `node`."""
    for name, value in labels.items():
        if name != NAME and name not in _OF_SCRAPE:
            yield NODE if name == "exported_node" else name, value


def _node(
    node: str,
    ticks: Mapping[int, Mapping[tuple[str, Labels], float]],
    groups: Sequence[Group],
    closed: bool,
) -> Iterator[bytes]:
    shared = SharedHead()
    running = [
        RunningGroup(group, lambda _needs: frozenset(), shared)
        for group in dependencies.ordered(groups)
    ]
    for now in sorted(ticks):
        samples_by_metric: dict[str, list[Sample]] = {}
        for (name, labels), value in ticks[now].items():
            samples_by_metric.setdefault(name, []).append(Sample(name, labels, value))
        families = by_metric(
            Family(name, "untyped", "", tuple(own)) for name, own in samples_by_metric.items()
        )
        results: list[TickResult] = []
        for group in running:
            tick = Tick(
                now, 0, _STEP, families, families.keys(), frozenset(), results, closed=closed
            )
            results.append(group.tick(tick))
        yield recorded_lines(_families(results), node, now / 1000)


def _families(results: Iterable[TickResult]) -> Iterator[Family]:
    for result in results:
        for metric, vector in result.results.items():
            samples = tuple(
                Sample(metric, tuple(pair for pair in labels if pair[0] != NAME), value)
                for labels, value in vector
            )
            yield Family(metric, "untyped", "", samples)
