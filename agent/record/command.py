"""The command `plimsoll-agent record`: runs the collectors at intervals, and appends their samples to files."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent import config
from agent.scrape.exposition import recorded_lines
from agent.scrape.runner import CollectorRunner
from collectors import registry
from collectors.interface.sample import Family
from plimsoll import flags, logs, sizes
from plimsoll.commandline import Parser
from plimsoll.flags import option
from plimsoll.process.signals import StopSignals
from plimsoll.recording.options import RecordingOptions, metric_names
from plimsoll.recording.spool import Spool, SpoolError

PROGRAM = f"{config.PROGRAM} record"
_ABOUT = """
Records this node's metrics for backtests of policies: one OpenMetrics file an hour, with the node's name as label `node`. The
agent's flags for collectors and the node's name can be given too.
"""
_EXAMPLES = """
example:
  plimsoll-agent record --dir /var/lib/plimsoll --for 24h --metrics node_load1
  plimsoll backtest -f policy.yaml --staleAfter 30s \\
      --openmetrics /var/lib/plimsoll/*.om

exit status: 0 at the end or after a signal, 1 if files cannot be written, 2 for invalid flags.
"""


@dataclass(frozen=True, kw_only=True)
class Options(RecordingOptions):
    """The flags that only `record` has."""

    max_size: int = option(
        "max-size",
        1 << 30,
        "maximum size of this node's files; the oldest are deleted",
        metavar="SIZE",
        parse=sizes.size,
    )
    metrics: frozenset[str] = option(
        "metrics",
        frozenset(),
        "names of the metrics to record, separated by commas; by default all",
        metavar="NAMES",
        parse=metric_names,
    )


def main(argv: Sequence[str]) -> int:
    """Record; return the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    flags.add_options(command, Options)
    config.add_flags(command, hidden=True)
    namespace = command.parse_args(argv)
    options = flags.from_namespace(Options, command, namespace, env={})
    settings = config.settings_of(command, namespace, os.environ, hostname=socket.gethostname())
    for mistake in options.recording_mistakes():
        command.error(mistake)
    logs.setup(settings.log_level if namespace.log_level else "warn", settings.log_format)
    stop = StopSignals()
    source = CollectorRunner(
        registry.build(settings.host, settings.collectors), timeout=settings.collector_timeout
    )
    try:
        spool = Spool(Path(options.folder), settings.host.name, most=options.max_size)
        record(
            spool,
            settings.host.name,
            lambda: chosen(source.run().families, options.metrics),
            every=options.every,
            duration=options.duration,
            wait=stop.wait,
        )
    except SpoolError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    finally:
        source.close()
    return 0


def record(
    spool: Spool,
    node: str,
    read: Callable[[], Sequence[Family]],
    *,
    every: float,
    duration: float,
    wait: Callable[[float], bool],
    clock: Callable[[], float] = time.time,
) -> None:
    """Record until `duration` seconds have passed (0: without end) or `wait(seconds)` returns True. Raises SpoolError."""
    begin = now = clock()
    while True:
        spool.write(now, recorded_lines(read(), node, now))
        pause = every - (clock() - begin) % every
        if duration and clock() + pause - begin > duration:
            break
        if wait(pause):
            break
        now = clock()
    spool.close()


def chosen(families: Sequence[Family], metrics: frozenset[str]) -> list[Family]:
    """Return the families with these names, all if there are none."""
    return [*_some(families, metrics)] if metrics else [*families]


def _some(families: Sequence[Family], metrics: frozenset[str]) -> Iterator[Family]:
    yield from (family for family in families if family.name in metrics)
