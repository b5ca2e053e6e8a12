"""The command `plimsoll-evaluator clean`: flags, output, exit status."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import ConfigError
from evaluator.core.kube.transport import KubeError
from evaluator.core.options import CoreOptions
from evaluator.features.registry import FEATURES
from evaluator.tools.clean.cleaner import IncompleteError, NodeCleaner, RemovalsOf, remove_statuses
from evaluator.tools.clean.evaluators import Evaluators, StillRunningError
from plimsoll import durations, flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import option
from plimsoll.text import counted

PROGRAM = "plimsoll-evaluator clean"
_EXAMPLES = """
exit status: 0 if nothing is left, 1 if an evaluator runs or a call failed, 2 for wrong flags. It is safe to run again.

The account needs to list and patch nodes, to patch nodes/status, to list taspolicies, to patch taspolicies/status, and in the
evaluator's namespace to list pods and get its Lease.

example:
  kubectl -n plimsoll scale deployment/plimsoll-evaluator --replicas=0
  plimsoll-evaluator clean --dry-run
  plimsoll-evaluator clean
"""


@dataclass(frozen=True, kw_only=True)
class CleanSettings:
    """The flags of plimsoll-evaluator clean; features have more."""

    kube_config: str = option(
        "kubeConfig",
        "",
        "kubeconfig file; without it the pod's service account is used, else ~/.kube/config",
        env="KUBECONFIG",
        metavar="FILE",
    )
    namespace: str = option(
        "namespace", "plimsoll", "namespace of the evaluator's pods and Lease", metavar="NAMESPACE"
    )
    lease_name: str = option(
        "leaseName",
        CoreOptions().lease_name,
        "name of the Lease, as the evaluator's flag",
        metavar="NAME",
    )
    wait: bool = option(
        "wait",
        True,
        "wait until the evaluator's pods have ended and its Lease is released or has expired; --no-wait where it never ran with a "
        "Lease, or the Lease was deleted",
    )
    timeout: float = option(
        "timeout",
        90.0,
        "longest wait for them; then the command fails and has removed nothing",
        metavar="DURATION",
        parse=durations.duration,
    )
    dry_run: bool = option("dry-run", False, "print what would be removed, change nothing")


WRITTEN = [feature.written for feature in reversed(FEATURES) if feature.written is not None]
"""What features write to nodes, the last feature first."""
SETTINGS: tuple[type[Any], ...] = (CleanSettings, *(written.options for written in WRITTEN))
"""The classes of flags."""


_WRITTEN = "\n".join(f"  {written.what}" for written in reversed(WRITTEN))
_ABOUT = f"""
Removes from all nodes what Plimsoll wrote:
{_WRITTEN}
and the status of all policies, which is out of date without an evaluator. What others wrote stays.

A running evaluator would write it again: scale it to 0 replicas first. The command waits until its pods have ended and its Lease
is released or has expired, and lists all nodes once more after its last write. An evaluator whose policies are deleted removes
everything by itself. Prints each node.
"""


def main(argv: Sequence[str]) -> int:
    """Clean the nodes, or print what would be removed with --dry-run; returns the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    for part in SETTINGS:
        flags.add_options(command, part)
    given = command.parse_args(argv)
    settings, *options = (
        flags.from_namespace(part, command, given, env=os.environ) for part in SETTINGS
    )
    features = [
        partial(written.removals, its) for written, its in zip(WRITTEN, options, strict=True)
    ]
    logs.setup("warn", "logfmt")
    try:
        asyncio.run(_clean(settings, features))
    except (ConfigError, IncompleteError, KubeError, StillRunningError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    return 0


async def _clean(settings: CleanSettings, features: Sequence[RemovalsOf]) -> None:
    """Raises ConfigError, KubeError, IncompleteError, StillRunningError."""
    verb = "would remove" if settings.dry_run else "removed"
    nodes: set[str] = set()

    def report(node: str, removed: Sequence[str]) -> None:
        nodes.add(node)
        sys.stdout.write(f"{node}: {verb} {'; '.join(removed)}\n")

    api = await Kube.connect(settings.kube_config)
    try:
        cleaner = NodeCleaner(api, features)
        if settings.dry_run:
            await cleaner.plan(report)
            await _clean_policies(api, verb, dry_run=True)
            return
        evaluators = Evaluators(api, settings.namespace, settings.lease_name)
        if settings.wait:
            await evaluators.wait(settings.timeout, _progress)
        await cleaner.run(report)
        await _clean_policies(api, verb, dry_run=False)
        if settings.wait and (running := await evaluators.running()):
            raise StillRunningError(
                f"an evaluator started meanwhile: {running}; stop it, then run it again"
            )
    finally:
        await api.close()
        sys.stdout.write(f"{verb} something on {counted(len(nodes), 'node')}\n")


async def _clean_policies(api: Kube, verb: str, *, dry_run: bool) -> None:
    async for policy in remove_statuses(api, dry_run=dry_run):
        sys.stdout.write(f"policy {policy}: {verb} status\n")


def _progress(line: str) -> None:
    sys.stderr.write(f"{PROGRAM}: {line}\n")
    sys.stderr.flush()
