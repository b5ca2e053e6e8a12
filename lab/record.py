"""The command `plimsoll record`: opens the agents' port, subscribes agents to metrics, writes their reports to files.

It is no replica of the evaluator: it decides and writes nothing in a cluster.
"""

import asyncio
import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.core import tls
from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import ConfigError
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.sources.agents import authn
from evaluator.core.sources.agents.certificates import port_certificates
from evaluator.core.sources.agents.options import AgentOptions
from evaluator.core.sources.agents.port_process import PortProcess
from evaluator.core.sources.agents.server import AgentServer
from evaluator.core.tls import TlsError
from evaluator.tools.check import manifests
from evaluator.tools.check.manifests import PoliciesError
from plimsoll import durations, flags, logs, sizes
from plimsoll.commandline import Parser
from plimsoll.flags import option
from plimsoll.floats import not_finite
from plimsoll.http.addresses import Address
from plimsoll.logs import LogOptions
from plimsoll.recording import series
from plimsoll.recording.options import RecordingOptions, metric_names
from plimsoll.recording.spool import Spool, SpoolError
from wire.codec import Delta


class Recorder:
    """Collects one line per metric that a report confirms, changed or not, until they are taken.

    A metric that the node lost, or of which it has several series, is NaN: missing at once, as for the live evaluator. One
    that it never had has a line of `series.ABSENT`. A metric whose source cannot be read has no line, so that it becomes
    stale; but one that was absent may exist by now, so it is NaN.
    """

    version = 0
    """Constant: nothing is decided here."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._readings: dict[str, dict[str, str]] = {}
        """Node → metric → series and value as text."""
        self._lines: list[str] = []
        self.samples = 0
        """Lines so far."""

    @property
    def nodes(self) -> int:
        """The number of nodes that have reported."""
        return len(self._readings)

    def knows(self, node: str) -> bool:
        """Whether deltas of a node can be applied."""
        return node in self._readings

    def report(self, node: str, report: Delta, _at: float) -> None:
        """Add the samples of a report."""
        readings = self._readings.setdefault(node, {})
        absent = {name: _absent(name, node) for name in report.never_had}
        was_absent = {name for name in report.unread if readings.get(name) == _absent(name, node)}
        unusable = [*report.absent, *report.several, *was_absent]
        readings.update((name, _sample(name, node, math.nan)) for name in unusable)
        readings.update(absent)
        readings.update((name, _sample(name, node, value)) for name, value in report.values.items())
        unread = set(report.unread) - was_absent
        now = self._clock()
        lines = [f"{text} {now:.3f}\n" for name, text in readings.items() if name not in unread]
        self._lines += lines
        self.samples += len(lines)

    def take(self) -> bytes:
        """Return the lines since the last call."""
        lines, self._lines = self._lines, []
        return "".join(lines).encode()


def _sample(name: str, node: str, value: float) -> str:
    text = repr(value) if math.isfinite(value) else not_finite(value)
    return f"{series.of_node(name, node)} {text}"


def _absent(name: str, node: str) -> str:
    return f"{series.of_node(series.ABSENT, node, [(series.METRIC, name)])} 1"


@dataclass(frozen=True, kw_only=True)
class Options(RecordingOptions, AgentOptions, LogOptions):
    """The flags beside --file. Times are in seconds."""

    every: float = option(
        "every",
        15.0,
        "how often agents report; changed .prom files are reported at once",
        metavar="DURATION",
        parse=durations.duration,
    )
    max_size: int = option(
        "max-size",
        10 << 30,
        "bytes of the files of all nodes; the oldest are deleted",
        metavar="SIZE",
        parse=sizes.size,
    )
    metrics: frozenset[str] = option(
        "metrics",
        frozenset(),
        "names of metrics to record beside those of the policies, separated by commas",
        metavar="NAMES",
        parse=metric_names,
    )
    bind_address: str = option(
        "bindAddress", "", "address to listen on; empty for all", metavar="ADDRESS"
    )
    kube_config: str = option(
        "kubeConfig",
        "",
        "as the evaluator's flag; only for --agentIdentity=token, to review tokens",
        env="KUBECONFIG",
        metavar="FILE",
    )

    def mistakes(self) -> list[str]:
        """Mistakes in the combination of flags, one sentence each."""
        sentences = [*self.recording_mistakes()]
        if not self.agent_unsafe and not self.agent_cert:
            sentences.append(
                "--agentCert and --agentKey are missing: name the certificate of this port, or pass --agentUnsafe to record what "
                "any client reports"
            )
        elif (
            not self.agent_unsafe and self.agent_identity == "certificate" and not self.agent_cacert
        ):
            sentences.append(
                "--agentCacert is missing: name the CA of the agents' certificates, or use --agentIdentity=token"
            )
        return sentences + self.agent_mistakes(plain=self.agent_unsafe)


log = logs.get(__name__)

PROGRAM = "plimsoll record"
PREFIX = "nodes"
"""How the names of the files begin."""
_ABOUT = """
Records what the agents of all nodes report, for backtests of policies: one OpenMetrics file an hour. It listens on the agents'
port, as a replica of the evaluator does; agents stream to it if --evaluator.address names it, or a Service that selects it. It
decides nothing, and a running evaluator is not affected.
"""
_EXAMPLES = """
example:
  plimsoll record -f policy.yaml --dir /data --for 24h \\
      --agentCert tls.crt --agentKey tls.key --agentCacert ca.crt
  plimsoll backtest -f policy.yaml --openmetrics /data/*.om --staleAfter 30s

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
        wanted = manifests.policies(namespace.files) if namespace.files else []
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
        certificate = None if plain else port_certificates(options, tls.Files("", "", None)).current
        host = options.bind_address
        bound = await server.start(PortProcess(str(Address(host, options.agent_port)), certificate))
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
