"""`plimsoll eval`: what an expression yields on this machine now, or yielded when an exposition was written."""

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent import config
from agent.config import Settings
from agent.eval import run
from agent.eval.run import FailedError
from agent.eval.sampler import Sampler
from agent.rules.files import RuleFileReader
from agent.rules.groups.file import Group, RuleFile
from agent.rules.options import RuleOptions
from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import Expression, parse
from agent.rules.promql.values import EvaluationError, Moment
from agent.rules.storage import exposition as expositions
from agent.rules.storage.exposition import ExpositionError
from agent.scrape.runner import CollectorRunner
from collectors import registry
from plimsoll import durations, flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import option

PROGRAM = "plimsoll eval"
_ABOUT = """
Evaluates a PromQL expression as a rule on this node would, and prints it as `promtool query instant` does. Runs only the collectors
that the expression needs: once, or for as long as it looks back.
"""
_EXAMPLES = """
examples:
  plimsoll eval 'node_load1'
      node_load1 => 0.25 @[1700000000.123]
  plimsoll eval 'sum by (mode) (rate(node_cpu_seconds_total[5s]))'
      sample for five seconds, then print the result
  plimsoll eval 'max_over_time(node_load1[2m])' --for 2m
      sample for two minutes instead of the default ten seconds
  plimsoll eval 'node_memory_MemAvailable_bytes / 1e9' --watch
      print the result each second, until Ctrl-C
  plimsoll eval 'node_health_metric' --rules.file='/etc/plimsoll/rules/*.yaml'
      evaluate the rules that record this metric, then print it
  curl -s node-a:9100/metrics | plimsoll eval 'max(node_load1)' --at -
      evaluate on another node's metrics; --at also takes a saved file
  plimsoll eval --path.procfs=/host/proc --path.sysfs=/host/sys -- '-node_load1'
      in the agent's container; -- before an expression that begins with a dash

The agent's flags can be given too and have the same meaning (see plimsoll-agent --help): with --rules.file, an expression can use
recorded metrics. Flags for ports and streams have no effect.

exit status: 0, also if there is nothing to print; 1 if something cannot be read or computed; 2 for an expression or a flag that is
wrong; 130 after Ctrl-C.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The flags that only `eval` has."""

    recorded: str = option(
        "at",
        "",
        "evaluate on the metrics in this file, at their latest timestamp if they have any, else at the file's modification time; "
        "- is standard input",
        metavar="FILE",
    )
    watch: bool = option("watch", False, "evaluate again each second, until Ctrl-C")
    patience: float = option(
        "for",
        10.0,
        "maximum time to sample for an expression that looks back, such as rate(...[5m])",
        metavar="DURATION",
        parse=durations.duration,
    )


_KINDS = {"parse": "parse error: ", "type": "type error: "}
_INTERRUPTED = 128 + signal.SIGINT


def main(argv: Sequence[str]) -> int:
    """Evaluate and print; the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES, usage=f"{PROGRAM} EXPR [flags]")
    command.add_argument("expression", metavar="EXPR", help="a PromQL expression, in quotes")
    flags.add_options(command, Options)
    config.add_flags(command, hidden=True)
    namespace = command.parse_args(argv)
    options = flags.from_namespace(Options, command, namespace, env={})
    settings = config.settings_of(command, namespace, os.environ, hostname=socket.gethostname())
    if options.recorded and (options.watch or namespace.patience is not None):
        command.error("--at evaluates a file and cannot be combined with --watch or --for")
    # Warnings only: informational lines of a service do not belong into a command's output.
    logs.setup(settings.log_level if namespace.log_level else "warn", settings.log_format)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # into `head`: end as other programs do
    signal.signal(signal.SIGINT, _interrupted)
    try:
        expression = parse(namespace.expression)
        if options.recorded:
            _recorded(expression, options.recorded, settings.rules)
        else:
            _live(expression, settings, options)
    except ExpressionError as error:
        return _say(f"{_KINDS.get(error.reason, '')}{error}", 2)
    except (EvaluationError, ExpositionError, FailedError) as error:
        return _say(str(error), 1)
    return 0


def _interrupted(_number: int, _frame: object) -> None:
    """Exit at once. An exception could be raised while a lock is held that the cleanup needs, and there is nothing to save."""
    os._exit(_INTERRUPTED)


def _say(sentence: str, status: int) -> int:
    sys.stderr.write(f"{PROGRAM}: {sentence}\n")
    return status


def _live(expression: Expression, settings: Settings, options: Options) -> None:
    source = CollectorRunner(
        registry.build(settings.host, settings.collectors), timeout=settings.collector_timeout
    )
    step = round(1000 * settings.rules.interval)
    groups, closed = _groups(settings.rules), settings.rules.closed
    sampled = Sampler(expression, source, groups, step=step, closed=closed)
    try:
        if options.watch:
            run.watch(expression, sampled)
        else:
            run.once(expression, sampled, patience=int(1000 * options.patience))
    finally:
        source.close()


def _groups(options: RuleOptions) -> Sequence[Group]:
    """Return the groups of the rule files; errors are printed."""
    rule_file = RuleFileReader(options.files).look() or RuleFile()
    for error in rule_file.errors:
        where = f"rule {error.rule} of {error.group}" if error.rule else f"group {error.group}"
        run.say(f"{where} is skipped: {error.text}")
    return rule_file.groups


def _recorded(expression: Expression, name: str, rules: RuleOptions) -> None:
    exposition = expositions.parse(_text(name))
    now = _written_at(name) if exposition.latest is None else exposition.latest
    step = round(1000 * rules.interval)
    moment = Moment(exposition.listed(now), now, step=step, closed=rules.closed)
    if not run.show(expression, moment):
        run.hint(expression, {labels for labels, _, _ in exposition.samples}, "it")


def _text(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return data.decode()
    except OSError as error:
        raise FailedError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FailedError(f"{name} is not text: {error}") from error


def _written_at(name: str) -> int:
    return int(1000 * (time.time() if name == "-" else Path(name).stat().st_mtime))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
