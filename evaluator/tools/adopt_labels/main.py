"""The command `plimsoll-evaluator adopt-labels`: flags, output, exit status."""

import asyncio
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import ConfigError
from evaluator.core.kube.transport import KubeError
from evaluator.tools.adopt_labels.migration import IncompleteError, LabelMigration
from plimsoll import flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import option
from plimsoll.text import counted

PROGRAM = "plimsoll-evaluator adopt-labels"
_ABOUT = """
Takes over the node labels that Telemetry Aware Scheduling wrote for the policies of this cluster: <policy>=violating and
telemetry.aware.scheduling.<policy>/... . Without it, Kubernetes keeps TAS as their owner and the evaluator cannot remove them.
Run it once, after TAS is scaled down and while the policies exist. No label changes; labels that another manager applies and
labels of deleted policies stay as they are. Prints each node with its labels.
"""
_EXAMPLES = """
exit status: 0 if every label is taken over, 1 if a call failed, 2 for wrong flags. It is safe to run again.

The account needs to list taspolicies and nodes, and to patch nodes; the evaluator's own account may do both.

example:
  plimsoll-evaluator adopt-labels --dry-run
  plimsoll-evaluator adopt-labels
  kubectl -n plimsoll exec deployment/plimsoll-evaluator -- plimsoll-evaluator adopt-labels
"""


@dataclass(frozen=True, kw_only=True)
class AdoptSettings:
    """Every flag of plimsoll-evaluator adopt-labels."""

    kube_config: str = option(
        "kubeConfig",
        "",
        "kubeconfig file; without it the pod's service account is used, else ~/.kube/config",
        env="KUBECONFIG",
        metavar="FILE",
    )
    dry_run: bool = option("dry-run", False, "print the labels, change nothing")


def main(argv: Sequence[str]) -> int:
    """Take over the labels, or print them with --dry-run; returns the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    settings = flags.parse_settings(AdoptSettings, command, argv=argv, env=os.environ)
    logs.setup("warn", "logfmt")
    try:
        asyncio.run(_adopt(settings))
    except (ConfigError, IncompleteError, KubeError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    return 0


async def _adopt(settings: AdoptSettings) -> None:
    """Raises ConfigError, KubeError, IncompleteError."""
    verb = "would take over" if settings.dry_run else "took over"
    nodes = labels = 0

    def report(node: str, keys: Collection[str]) -> None:
        nonlocal nodes, labels
        nodes, labels = nodes + 1, labels + len(keys)
        sys.stdout.write(f"{node}: {verb} {', '.join(keys)}\n")

    api = await Kube.connect(settings.kube_config)
    try:
        migration = LabelMigration(api)
        await (migration.plan(report) if settings.dry_run else migration.run(report))
    finally:
        await api.close()
        sys.stdout.write(f"{verb} {counted(labels, 'label')} on {counted(nodes, 'node')}\n")
