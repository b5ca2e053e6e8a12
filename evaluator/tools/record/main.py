"""The command `plimsoll-evaluator record`: opens the agents' port, subscribes agents to metrics, writes their reports to files."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import ConfigError
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.sources.agents import authn
from evaluator.core.sources.agents.server import AgentServer
from evaluator.core.sources.agents.tls import Files
from evaluator.core.tls import TlsError
from evaluator.tools.backtest import policies
from evaluator.tools.backtest.policies import PoliciesError
from evaluator.tools.record.options import Options
from evaluator.tools.record.recorder import Recorder
from plimsoll import flags, logs
from plimsoll.commandline import Parser
from plimsoll.http.addresses import Address
from plimsoll.recording.spool import Spool, SpoolError

log = logs.get(__name__)

PROGRAM = "plimsoll-evaluator record"
PREFIX = "nodes"
"""How the names of the files begin."""
_ABOUT = """
Records what the agents of all nodes report, for backtests of policies: one OpenMetrics file an hour. It listens on the agents'
port, as a replica of the evaluator does; agents stream to it if --evaluator.address names it, or a Service that selects it. It
decides nothing, and a running evaluator is not affected.
"""
_EXAMPLES = """
example:
  plimsoll-evaluator record -f policy.yaml --dir /data --for 24h --agentCert tls.crt --agentKey tls.key --agentCacert ca.crt
  plimsoll-evaluator backtest -f policy.yaml --openmetrics /data/*.om --staleAfter 30s

exit status: 0 at the end or after a signal, 1 if files cannot be written or the port cannot be opened, 2 for invalid flags, or if
no agent has reported.
"""
_FLUSH = 1.0
"""Seconds between two writes; a crash loses at most what was reported since the last."""
_ALONE = 60.0
"""Seconds without any report after which a warning is due."""


def main(argv: Sequence[str]) -> int:
    """Record; return the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    command.add_argument(
        "-f",
        "--file",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="policies whose metrics to record: a manifest or a folder; repeatable",
    )
    flags.add_options(command, Options)
    namespace = command.parse_args(argv)
    options = flags.from_namespace(Options, command, namespace, env=os.environ)
    if mistakes := options.mistakes():
        command.error("; ".join(mistakes))
    logs.setup(options.log_level, options.log_format)
    logs.adopt()
    try:
        wanted = policies.read(namespace.files) if namespace.files else []
        metrics = options.metrics.union(*(policy.base_metrics for policy in wanted))
        if not metrics:
            command.error("no metrics: name policies with -f, or metrics with --metrics")
        spool = Spool(Path(options.folder), PREFIX, most=options.max_size)
        recorder = Recorder()
        asyncio.run(_run(options, metrics, recorder, spool))
    except PoliciesError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 2
    except (ConfigError, OSError, SpoolError, TlsError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    sys.stderr.write(
        f"{PROGRAM}: {recorder.samples:,} samples of {recorder.nodes:,} nodes in {options.folder}\n"
    )
    return 0 if recorder.samples else 2


async def _run(
    options: Options, metrics: Collection[str], recorder: Recorder, spool: Spool
) -> None:
    """Record until the time is over or a signal arrives. Raises ConfigError, OSError, SpoolError, TlsError."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.duration:
        loop.call_later(options.duration, stop.set)
    async with _listening(options, metrics, recorder):
        await _write(recorder, spool, stop)


@contextlib.asynccontextmanager
async def _listening(
    options: Options, metrics: Collection[str], recorder: Recorder
) -> AsyncIterator[None]:
    """Serve the agents' port. Raises ConfigError, OSError, TlsError."""
    subscriptions = Subscriptions()
    subscriptions.want(metrics)
    plain = options.agent_unsafe
    async with contextlib.AsyncExitStack() as stack:
        api = None
        if not plain and options.agent_identity == "token":
            api = await Kube.connect(options.kube_config)
            stack.push_async_callback(api.close)
        server = AgentServer(
            recorder,
            subscriptions,
            interval=options.every,
            authorizer=authn.authorizer(options, api, plain=plain),
            limits=options.agent_limits.for_metrics(len(metrics)),
        )
        credentials = None if plain else authn.certificates(options, Files("", "")).credentials()
        host = options.bind_address
        bound = await server.start(
            str(Address(host or "::", options.agent_port)), credentials=credentials
        )
        stack.push_async_callback(server.stop)
        log.info(
            "recording",
            address=str(Address(host, bound)),
            tls=not plain,
            metrics=len(metrics),
            dir=options.folder,
        )
        yield


async def _write(recorder: Recorder, spool: Spool, stop: asyncio.Event) -> None:
    """Write samples until `stop` is set. Raises SpoolError."""
    begun, warned = time.monotonic(), False
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH):
                await stop.wait()
        if lines := recorder.take():
            await asyncio.to_thread(spool.write, time.time(), lines)
        if not warned and not recorder.nodes and time.monotonic() - begun > _ALONE:
            warned = True
            log.warning(
                "no agent has reported: do agents find this address by --evaluator.address, and may they connect?"
            )
    await asyncio.to_thread(spool.close)
