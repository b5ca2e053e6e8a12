"""The command `plimsoll-agent backfill`: recording rules over recorded files, so that a backtest can use their results."""

import io
import re
import signal
import sys
from collections.abc import Callable, Sequence
from functools import cache

from agent.config import PROGRAM as AGENT
from agent.record.backfill import Samples, backfill
from agent.rules.files import RuleFileReader
from agent.rules.groups import dependencies
from agent.rules.storage import exposition
from agent.rules.storage.exposition import ExpositionError
from plimsoll import durations, logs
from plimsoll.commandline import Parser
from plimsoll.files import userfile
from plimsoll.recording.names import metric_names
from plimsoll.text import SentenceError

PROGRAM = f"{AGENT} backfill"
_ABOUT = """
Evaluates recording rules over OpenMetrics files as the agents of these nodes would have, and prints the results as OpenMetrics:
input for plimsoll-evaluator backtest, so that a rule and its policy are tested together.
"""
_EXAMPLES = """
example:
  plimsoll-agent backfill --rules.file=rules.yaml week.om > recorded.om
  plimsoll-evaluator backtest -f policy.yaml --openmetrics week.om recorded.om

exit status: 0, 1 if a file cannot be read or a rule is invalid, 2 for invalid flags.
"""


_NAME = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)[{ ]", re.ASCII)


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
    given = command.parse_args(argv)
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
        _run(given.rules, given.files, every, metrics)
    except (BackfillError, ExpositionError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    return 0


def _run(rules: Sequence[str], files: Sequence[str], every: int, metrics: frozenset[str]) -> None:
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
    for part in backfill(samples, groups, every):
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
