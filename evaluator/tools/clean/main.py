"""The command `plimsoll-evaluator clean`: flags, output, exit status."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import ConfigError
from evaluator.core.kube.transport import KubeError
from evaluator.features.node_actions import names
from evaluator.tools.clean.cleaner import IncompleteError, NodeCleaner
from plimsoll import flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import option
from plimsoll.text import counted

PROGRAM = "plimsoll-evaluator clean"
_ABOUT = """
Removes from all nodes what Plimsoll wrote: labels and conditions that its field manager owns, and taints with its prefixes. Labels,
taints and conditions of others stay. Run it when no evaluator runs, since a running one writes them again; an evaluator whose
policies are deleted removes everything by itself. Prints each node.
"""
_EXAMPLES = """
exit status: 0 if nothing is left, 1 if a call failed, 2 for wrong flags. It is safe to run again.

The account needs to list and patch nodes, and to patch nodes/status.

example:
  kubectl -n plimsoll scale deployment/plimsoll-evaluator --replicas=0
  plimsoll-evaluator clean --dry-run
  plimsoll-evaluator clean
"""


@dataclass(frozen=True, kw_only=True)
class CleanSettings:
    """Every flag of plimsoll-evaluator clean."""

    kube_config: str = option(
        "kubeConfig",
        "",
        "kubeconfig file; without it the pod's service account is used, else ~/.kube/config",
        env="KUBECONFIG",
        metavar="FILE",
    )
    taint_prefix: str = option(
        "taintPrefix",
        names.DOMAIN,
        "prefix of taint keys beside the usual ones, as the evaluator's flag",
        metavar="PREFIX",
        parse=names.taint_prefix,
    )
    dry_run: bool = option("dry-run", False, "print what would be removed, change nothing")


def main(argv: Sequence[str]) -> int:
    """Clean the nodes, or print what would be removed with --dry-run; returns the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    settings = flags.parse_settings(CleanSettings, command, argv=argv, env=os.environ)
    logs.setup("warn", "logfmt")
    try:
        asyncio.run(_clean(settings))
    except (ConfigError, IncompleteError, KubeError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    return 0


async def _clean(settings: CleanSettings) -> None:
    """Raises ConfigError, KubeError, IncompleteError."""
    verb = "would remove" if settings.dry_run else "removed"
    nodes: set[str] = set()

    def report(node: str, removed: Sequence[str]) -> None:
        nodes.add(node)
        sys.stdout.write(f"{node}: {verb} {'; '.join(removed)}\n")

    api = await Kube.connect(settings.kube_config)
    try:
        cleaner = NodeCleaner(api, names.own_prefixes(settings.taint_prefix))
        await (cleaner.plan(report) if settings.dry_run else cleaner.run(report))
    finally:
        await api.close()
        sys.stdout.write(f"{verb} something on {counted(len(nodes), 'node')}\n")
