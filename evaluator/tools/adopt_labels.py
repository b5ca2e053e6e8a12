"""The command `plimsoll adopt-labels`: moves the ownership of Telemetry Aware Scheduling's (TAS) labels, node by node.

TAS wrote labels by JSON patch, so its field manager owns them for good: server-side apply, even with force, only shares
ownership of an unchanged value, and a later apply without the label would not delete it. Moving the entry in
`managedFields` changes the owner and no label.
"""

import asyncio
import copy
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from evaluator.core.kube.client import Kube, now
from evaluator.core.kube.connection import ConfigError
from evaluator.core.kube.resources import NODES, POLICIES, APIResource
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.node_labels import FIELD_MANAGER, PREFIX, LabelApply
from evaluator.core.options import KubeOptions
from evaluator.core.policy.types import VIOLATING
from plimsoll import flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import option
from plimsoll.ratelimit import TokenBucket
from plimsoll.text import counted

Object = Mapping[str, Any]
PASSES = 5
"""Lists of all nodes before the command gives up."""
_PAUSE = 2.0
"""Seconds between two passes."""
_GONE = 404
_RETRYABLE = frozenset({0, 409, 429})
"""Besides 5xx: no answer, the node has changed since the list, too many requests."""
PROGRAM = "plimsoll adopt-labels"
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
  plimsoll adopt-labels --dry-run
  plimsoll adopt-labels
  kubectl -n plimsoll exec deployment/plimsoll-evaluator -- \\
      plimsoll adopt-labels
"""


def candidates(node: Object, policies: Collection[str]) -> dict[str, str]:
    """The labels to take over: those of TAS for policies of these names that Plimsoll does not own alone.

    Labels that another manager set by server-side apply are left out: that manager declares them as its own. A node
    without `managedFields` has no owners recorded; all its labels of TAS are candidates.
    """
    meta = node["metadata"]
    labels = meta.get("labels") or {}
    named = {key for key, value in labels.items() if _is_tas_label(key, value, policies)}
    entries = meta.get("managedFields") or ()
    if entries:
        applied, written = set[str](), set[str]()
        for entry in entries:
            if entry.get("operation") == "Update":
                written.update(_keys(entry))
            elif not _is_ours(entry):
                applied.update(_keys(entry))
        named = (named & written) - applied
    return {key: labels[key] for key in sorted(named)}


def adopted(node: Object, keys: Collection[str], *, at: str) -> list[dict[str, Any]]:
    """The node's `managedFields` with Plimsoll as the only owner of these label keys since `at` (RFC 3339)."""
    entries = copy.deepcopy(list(node["metadata"].get("managedFields") or ()))
    for entry in entries:
        if entry.get("operation") == "Update":
            _remove(entry, keys)
    kept = [entry for entry in entries if entry.get("fieldsV1")]
    ours = next((entry for entry in kept if _is_ours(entry)), None)
    if ours is None:
        ours = {
            "manager": FIELD_MANAGER,
            "operation": "Apply",
            "apiVersion": "v1",
            "time": at,
            "fieldsType": "FieldsV1",
            "fieldsV1": {},
        }
        kept.append(ours)
    labels = ours["fieldsV1"].setdefault("f:metadata", {}).setdefault("f:labels", {})
    labels.update({f"f:{key}": {} for key in keys})
    return kept


def _is_tas_label(key: str, value: str, policies: Collection[str]) -> bool:
    """`<policy>=violating`, and all keys under the prefix of a policy's labeling rules."""
    if key in policies:
        return value == VIOLATING
    policy, separator, _name = key.removeprefix(PREFIX).rpartition("/")
    return key.startswith(PREFIX) and bool(separator) and policy in policies


def _is_ours(entry: Object) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
        FIELD_MANAGER,
        "Apply",
        "",
    )


def _keys(entry: Object) -> Iterator[str]:
    fields = (entry.get("fieldsV1") or {}).get("f:metadata", {}).get("f:labels", {})
    return (field[2:] for field in fields if field.startswith("f:"))


def _remove(entry: dict[str, Any], keys: Collection[str]) -> None:
    """Remove keys from an entry, and the parents that become empty."""
    fields = entry.get("fieldsV1") or {}
    meta = fields.get("f:metadata", {})
    labels = meta.get("f:labels", {})
    for key in keys:
        labels.pop(f"f:{key}", None)
    if "f:labels" in meta and not labels:
        del meta["f:labels"]
    if "f:metadata" in fields and not meta:
        del fields["f:metadata"]


_RATE, _BURST = 50, 100
"""Writes per second on average, and at once: the evaluator's default for node labels."""

Report = Callable[[str, Collection[str]], None]
"""Receives a node's name and the label keys to take over on it."""


class IncompleteError(Exception):
    """Some nodes could not be written in `PASSES` passes; the text names the last error."""


class LabelMigration:
    """Finds the labels with `plan()` and takes them over with `run()`."""

    def __init__(self, kube: Kube, *, pause: float = _PAUSE) -> None:
        self._kube = kube
        self._pause = pause
        self._bucket = TokenBucket(_RATE, _BURST)

    async def plan(self, report: Report) -> None:
        """Report what `run()` would take over. Raises KubeError."""
        async for node, labels in self._candidates():
            report(node["metadata"]["name"], labels)

    async def run(self, report: Report) -> None:
        """Take over all labels and report each node when it is done.

        Raises KubeError if the API server refuses a call for good, IncompleteError if calls keep failing.
        """
        error, retry_after = "", 0.0
        for attempt in range(PASSES):
            if attempt:
                await asyncio.sleep(max(self._pause, retry_after))
            complete, error, retry_after = True, "", 0.0
            try:
                async for node, labels in self._candidates():
                    try:
                        complete &= await self._take_over(node, labels, report)
                    except KubeError as failed:
                        if not _is_retryable(failed):
                            raise
                        complete, error = False, str(failed)
                        retry_after = failed.retry_after or 0.0
            except KubeError as failed:
                if not _is_retryable(failed):
                    raise
                complete, error = False, str(failed)
                retry_after = failed.retry_after or 0.0
            if complete:
                return
        raise IncompleteError(f"some labels are not taken over: {error or 'nodes keep changing'}")

    async def _candidates(self) -> AsyncIterator[tuple[dict[str, Any], dict[str, str]]]:
        """The nodes with labels to take over, and these labels."""
        policies = {policy["metadata"]["name"] async for policy in self._list(POLICIES)}
        async for node in self._list(NODES):
            if labels := candidates(node, policies):
                yield node, labels

    async def _list(self, resource: APIResource) -> AsyncIterator[dict[str, Any]]:
        async for page in self._kube.pages(resource):
            for raw in page.items:
                yield msgspec.json.decode(raw, type=dict[str, Any])

    async def _take_over(
        self, node: dict[str, Any], labels: dict[str, str], report: Report
    ) -> bool:
        """Write one node; returns whether it is done. Raises KubeError."""
        meta = node["metadata"]
        await asyncio.sleep(self._bucket.take(asyncio.get_running_loop().time()))
        try:
            if not meta.get("managedFields"):
                # The API server now creates managedFields. The next pass reads and changes them.
                await self._kube.apply_node_labels(LabelApply(meta["name"], meta["uid"], labels))
                return False
            fields = adopted(node, labels, at=now())
            await self._kube.put_managed_fields(node, fields)
        except KubeError as error:
            if error.status != _GONE:
                raise
            return True
        report(meta["name"], labels)
        return True


def _is_retryable(error: KubeError) -> bool:
    return error.status in _RETRYABLE or error.status >= 500


@dataclass(frozen=True, kw_only=True)
class AdoptSettings(KubeOptions):
    """Every flag of plimsoll adopt-labels."""

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
