"""The program plimsoll-evaluator: parses flags, runs a subcommand or the service until a signal, returns the exit status."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from evaluator.app import Service
from evaluator.config import Settings
from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import ConfigError
from evaluator.core.sources.prometheus import QueriesError
from evaluator.core.tls import TlsError
from plimsoll import cli, flags, logs
from plimsoll.commandline import Parser
from plimsoll.http.addresses import ListenError
from plimsoll.process import garbage, memory

PROGRAM = "plimsoll-evaluator"
COMMANDS = tuple(
    name
    for name, subcommand in cli.SUBCOMMANDS.items()
    if subcommand.module.partition(".")[0] in {"evaluator", "lab"}
)
"""The commands of `plimsoll` that were this program's: they are passed on."""
_CHECK = "--check-flags"
_ABOUT = """
Applies the TASPolicy objects of a cluster to readings of its nodes: filters and ranks nodes for kube-scheduler, labels them and,
if flags permit it, acts on nodes and pods.
"""
_EXAMPLES = f"""
example, outside the cluster:
  plimsoll-evaluator --unsafe --bindAddress 127.0.0.1
  curl localhost:8080/readyz
  curl localhost:8080/explain/<namespace>/<policy>

commands, which are now those of plimsoll (see plimsoll --help): {", ".join(COMMANDS)}

Turn a switch off with --no-<flag> or --<flag>=false. Flags may have one dash or two, as in Telemetry Aware Scheduling.
"""


def main(argv: Sequence[str] | None = None, *, settings_type: type[Settings] = Settings) -> int:
    """Run a command, or the evaluator until SIGTERM or SIGINT; returns the exit status.

    `settings_type`: a subclass with other limits, for tests.
    """
    command = Parser(
        PROGRAM,
        about=_ABOUT,
        examples=_EXAMPLES,
        usage=f"{PROGRAM} [flags]",
        commands=COMMANDS,
    ).with_version()
    command.add_argument(
        _CHECK,
        action="store_true",
        help="only check the flags, without the files that they name: exit status 0 if they are valid together, else 2",
    )
    given = sys.argv[1:] if argv is None else argv
    if given and given[0] in COMMANDS:
        return cli.main(given)
    settings = flags.parse_settings(
        settings_type, command, argv=given, env=os.environ, grouped=True
    )
    if mistakes := settings.mistakes():
        command.error("; ".join(mistakes))
    if _CHECK in given:
        return 0
    logs.setup("debug" if settings.v >= 4 else settings.log_level, settings.log_format)
    logs.adopt()
    memory.use_one_arena()
    try:
        asyncio.run(run(settings))
    except (ConfigError, ListenError, OSError, QueriesError, TlsError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    return 0


async def run(settings: Settings) -> None:
    """Run the service until SIGTERM and --shutdownDelay, until SIGINT, or until a second signal.

    Raises ConfigError, ListenError, OSError, QueriesError, TlsError.
    """
    stop, at_once = asyncio.Event(), asyncio.Event()

    def end(number: signal.Signals) -> None:
        if number is signal.SIGINT or stop.is_set():
            at_once.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    api = await Kube.connect(settings.kube_config)
    try:
        service = Service(settings, api)
        garbage.raise_thresholds()
        memory.return_large_buffers()
        await service.run(stop, at_once)
    finally:
        await api.close()
