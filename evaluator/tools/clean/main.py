"""The command `plimsoll clean`: flags, output, exit status; and the evaluators that must have ended before it.

A leader writes until it releases its Lease or the Lease expires; a pod may acquire the Lease until it has ended. Only one
namespace is searched: in others, a tenant could create such objects and block the command.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import ConfigError
from evaluator.core.kube.transport import KubeError
from evaluator.core.leader import lease
from evaluator.core.leader.lease import LeaseTimings, ObservedLease, Wait
from evaluator.core.leader.write_fence import clock
from evaluator.core.model.names import UNREADABLE
from evaluator.core.options import CoreOptions, KubeOptions
from evaluator.features.registry import FEATURES
from evaluator.tools.clean.cleaner import IncompleteError, NodeCleaner, RemovalsOf, remove_statuses
from plimsoll import durations, flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import option
from plimsoll.text import counted, printable

PODS = "app.kubernetes.io/name=plimsoll-evaluator"
"""Label selector of the evaluator's pods."""
_TIMINGS = LeaseTimings(duration=15.0, renew_deadline=10.0, retry=2.0)
"""For a Lease without a duration: client-go's defaults."""
_PAUSE = 1.0
"""Seconds between two checks."""
_ENDED = frozenset({"Succeeded", "Failed"})
"""Phases of pods without a running container."""
PROGRAM = "plimsoll clean"
_EXAMPLES = """
exit status: 0 if nothing is left, 1 if an evaluator runs or a call failed, 2 for wrong flags. It is safe to run again.

The account needs to list and patch nodes, to patch nodes/status, to list taspolicies, to patch taspolicies/status, and in the
evaluator's namespace to list pods and get its Lease.

example:
  kubectl -n plimsoll scale deployment/plimsoll-evaluator --replicas=0
  plimsoll clean --dry-run
  plimsoll clean
"""
WRITTEN = [feature.written for feature in reversed(FEATURES) if feature.written is not None]
"""What features write to nodes, the last feature first."""
_WRITTEN = "\n".join(f"  {written.what}" for written in reversed(WRITTEN))
_ABOUT = f"""
Removes from all nodes what Plimsoll wrote:
{_WRITTEN}
and the status of all policies, which is out of date without an evaluator. What others wrote stays.

A running evaluator would write it again: scale it to 0 replicas first. The command waits until its pods have ended and its Lease
is released or has expired, and lists all nodes once more after its last write. An evaluator whose policies are deleted removes
everything by itself. Prints each node.
"""


class StillRunningError(Exception):
    """An evaluator may still write, or it cannot be known; the text says what to do."""


class Evaluators:
    """The pods and the Lease of one installation. `clock` returns seconds."""

    def __init__(
        self, kube: Kube, namespace: str, lease_name: str, *, clock: Callable[[], float] = clock
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._lease_name = lease_name
        self._clock = clock
        self._seen = ObservedLease()

    async def wait(self, timeout: float, report: Callable[[str], None]) -> None:
        """Return when no evaluator can write any more; `report` receives what is waited for, whenever it changes.

        Raises StillRunningError after `timeout` seconds, and KubeError.
        """
        deadline, reported = self._clock() + timeout, ""
        while running := await self.running():
            if self._clock() >= deadline:
                raise StillRunningError(
                    f"nothing was removed: {running} after {timeout:g} s; scale the evaluator to 0 replicas, or raise --timeout"
                )
            if running != reported:
                report(f"waiting: {running}")
                reported = running
            await asyncio.sleep(_PAUSE)

    async def running(self) -> str:
        """Return which pods have not ended and which replica holds the Lease; empty if there is none.

        A holder counts until the Lease has not changed for its duration, seen from here: clocks are never compared. Raises
        StillRunningError if the Lease does not exist, and KubeError.
        """
        pods = await self._kube.list_pods(self._namespace, labels=PODS)
        held = await self._kube.read_lease(self._namespace, self._lease_name)
        name = f"{self._namespace}/{self._lease_name}"
        if held is None:
            raise StillRunningError(
                f"nothing was removed: there is no Lease {name}, so a running evaluator would not be noticed; name the "
                "evaluator's --namespace and --leaseName, or use --no-wait if none runs"
            )
        now = self._clock()
        self._seen = self._seen.read(held, now)
        phrases = [*_running(pods)]
        step = lease.decide(self._seen, "", _TIMINGS, now)
        if isinstance(step, Wait):
            phrases.append(f"{printable(self._seen.holder)} holds the Lease {name}")
        return ", ".join(phrases)


def _running(pods: list[msgspec.Raw]) -> Iterator[str]:
    """Yield a phrase for each pod that has not ended. Raises KubeError."""
    for raw in pods:
        try:
            pod = msgspec.json.decode(raw, type=_Pod)
        except UNREADABLE as error:
            raise KubeError(0, f"unreadable pod: {error}") from error
        if pod.status.phase not in _ENDED:
            state = "is terminating" if pod.metadata.deletion_timestamp else "runs"
            yield f"pod {pod.metadata.name} {state}"


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    deletion_timestamp: str | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, kw_only=True)
class CleanSettings(KubeOptions):
    """The flags of plimsoll clean; features have more."""

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


SETTINGS: tuple[type[Any], ...] = (CleanSettings, *(written.options for written in WRITTEN))
"""The classes of flags."""


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
