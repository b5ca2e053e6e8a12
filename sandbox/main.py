"""The commands `plimsoll up`, a local cluster to try Plimsoll, `demo`, `inject` and `repair`; also as `plimsoll-sandbox`."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from plimsoll import flags, logs
from plimsoll.commandline import Parser
from sandbox import manifests, pki
from sandbox.cluster import Cluster, ClusterError, ClusterSpec
from sandbox.config import DemoSettings, InjectSettings, UpSettings
from sandbox.demo import gangs, health_metric, node_actions, placement, shell, signals
from sandbox.demo.stage import Demo, run_demo
from sandbox.endpoints import table
from sandbox.inject import FAULTS, InjectError, inject, repair
from sandbox.processes import ProcessError

_ABOUT = """\
A Kubernetes cluster on this machine, for trying Plimsoll, demos and tests, without root, containers or network. The API
server is in memory and the nodes are simulated; agents (one per node) and evaluator are the real programs, and pods are
scheduled as by kube-scheduler, including extender calls. kubectl works on it.
"""

_UP = """\
Start a cluster, print its addresses, and run until Ctrl-C. Only the folder remains afterwards.

Mark a node unhealthy, so that it gets no new pods:
  plimsoll up
  kubectl --kubeconfig .sandbox/kubeconfig apply -f deploy/health-metric-demo/
  echo 'node_health_metric 1' > .sandbox/node-b/node-metrics/text.prom
"""

_DEMO = """\
Run a demo on three nodes and print each step, what was observed and after how long.
Exit status 0 only if every step was observed.

  plimsoll demo               a node becomes unhealthy, is emptied, and recovers
  plimsoll demo gangs         pods wait for their whole gang, by priority
  plimsoll demo node-actions  a node gets a condition and a taint, up to a limit
  plimsoll demo placement     simulated: nodes' use with a policy, as pictures
  plimsoll demo signals       a fault in the kernel's log, effects and repair
"""

_INJECT = """\
Let a simulated node have a fault: its kernel logs what a kernel logs, and its files and driver report it.

  plimsoll inject node-b xid 79
  plimsoll inject node-b read-only
"""

_REPAIR = """\
End a fault of a simulated node: its files and driver report that it is over.

  plimsoll repair node-b xid
  plimsoll repair node-b read-only
"""

_CHANGES = {"inject": inject, "repair": repair}
PLACEMENT = "placement"
"""The demo that is simulated, without a cluster."""
DEMOS: Mapping[str, Demo] = {
    "health-metric": health_metric.DEMO,
    "gangs": gangs.DEMO,
    "node-actions": node_actions.DEMO,
    "signals": signals.DEMO,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser, commands = _parser()
    namespace = parser.parse_args(argv)
    chosen = commands[namespace.command]
    try:
        if namespace.command == "up":
            return asyncio.run(
                _up(flags.from_namespace(UpSettings, chosen, namespace, env=os.environ))
            )
        if (change := _CHANGES.get(namespace.command)) is not None:
            folder = flags.from_namespace(InjectSettings, chosen, namespace, env=os.environ).dir
            for line in change(Path(folder), namespace.node, namespace.fault, namespace.arguments):
                sys.stdout.write(f"{line}\n")
            return 0
        settings = flags.from_namespace(DemoSettings, chosen, namespace, env=os.environ)
        if namespace.demo == PLACEMENT:
            return asyncio.run(placement.run_placement(settings))
        return asyncio.run(run_demo(DEMOS[namespace.demo], settings))
    except (ClusterError, InjectError, ProcessError, OSError) as error:
        sys.stderr.write(f"{chosen.prog}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser("plimsoll-sandbox", about=_ABOUT).with_version()
    adder = parser.add_subparsers(prog="plimsoll", dest="command", required=True, metavar="COMMAND")
    commands = {}
    for name, settings, about in (
        ("up", UpSettings, _UP),
        ("demo", DemoSettings, _DEMO),
        ("inject", InjectSettings, _INJECT),
        ("repair", InjectSettings, _REPAIR),
    ):
        commands[name] = adder.add_parser(name, help=about.splitlines()[0], about=about)
        flags.add_options(commands[name], settings)
    commands["demo"].add_argument(
        "demo",
        nargs="?",
        choices=(*DEMOS, PLACEMENT),
        default="health-metric",
        metavar="DEMO",
        help=f"{' or '.join((*DEMOS, PLACEMENT))} (default health-metric)",
    )
    for name in _CHANGES:
        commands[name].add_argument("node", metavar="NODE", help="name of the node")
        commands[name].add_argument(
            "fault", metavar="FAULT", choices=tuple(FAULTS), help=", ".join(FAULTS)
        )
        commands[name].add_argument(
            "arguments",
            nargs="*",
            metavar="ARGUMENT",
            help="of xid: its code and the GPU's PCI address; of dimm: how many errors; of link: `down`, to stay so",
        )
    return parser, commands


async def _up(settings: UpSettings) -> int:
    logs.setup(settings.log_level)
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The first signal stops in order; a second one stops at once.
        asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    spec = ClusterSpec(
        dir=Path(settings.dir),
        nodes=tuple(settings.nodes.split(",")),
        api_port=settings.api_port,
        extender_port=settings.extender_port,
        ops_port=settings.ops_port,
        sync_period=settings.sync_period,
        node_cache_capable=settings.node_cache_capable,
        scorers=tuple(filter(None, settings.scorers.split(","))),
        gangs=settings.gangs,
        node_actions=settings.node_actions,
        problems=settings.problems,
        custom_metrics=settings.custom_metrics and pki.available(),
        keep=settings.keep,
    )
    try:
        async with Cluster(spec) as cluster:
            sys.stdout.write(
                table(
                    cluster.endpoints,
                    Path(settings.dir),
                    Path(shell.path(manifests.folder())),
                    gangs=settings.gangs,
                    custom_metrics=spec.custom_metrics,
                )
            )
            sys.stdout.flush()
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        sys.stdout.write("Stopped.\n")
    return 0
