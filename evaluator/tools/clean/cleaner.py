"""Removes what the evaluator wrote: from all nodes, node by node, and the status of all policies."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from evaluator.core.cache.cluster import decode_node
from evaluator.core.kube.client import Kube
from evaluator.core.kube.resources import NODES, POLICIES
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import UNREADABLE, PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import LabelApply
from evaluator.core.policy.annotations import IN_FORCE
from evaluator.core.writes.node_plan import Removal
from plimsoll.ratelimit import TokenBucket

PASSES = 5
"""Lists of all nodes before the command gives up."""
_PAUSE = 2.0
"""Seconds between two passes. A leader that still runs writes again within one."""
_RATE, _BURST = 50, 100
"""Writes per second on average, and at once: the evaluator's default."""
_GONE = 404
_RETRYABLE = frozenset({0, 409, 422, 429})
"""Besides 5xx: no answer, the node has changed since the list, too many requests."""

RemovalsOf = Callable[[Node], Iterator[Removal]]
"""Yields the writes that remove what one feature wrote to a node."""
Report = Callable[[str, Sequence[str]], None]
"""Receives a node's name and what is removed from it."""
_NOT_FOUND = 404
_WRITTEN = frozenset(
    [
        "compliance",
        "message",
        "violatingNodes",
        "enforcement",
        IN_FORCE,
        "pods",
        "observedGeneration",
        "conditions",
    ]
)
"""The fields of a status that the evaluator writes (`PolicyStatus.body`); others stay."""


class IncompleteError(Exception):
    """Something is left on some nodes after `PASSES` passes; the text says why."""


@dataclass(slots=True)
class _Pass:
    """What one pass did: the last node it wrote to, and the last failure that is worth a retry."""

    written: str = ""
    failure: "_Failure | None" = None


@dataclass(frozen=True, slots=True)
class _Failure:
    """A call that failed and may be repeated, in seconds."""

    reason: str
    retry_after: float


class NodeCleaner:
    """Finds what is ours with `plan()` and removes it with `run()`."""

    def __init__(
        self, kube: Kube, features: Sequence[RemovalsOf], *, pause: float = _PAUSE
    ) -> None:
        self._kube = kube
        self._features = features
        self._pause = pause
        self._bucket = TokenBucket(_RATE, _BURST)

    async def plan(self, report: Report) -> None:
        """Report what `run()` would remove. Raises KubeError."""
        async for node in self._nodes():
            if removed := [removal.what for removal in self._removals(node)]:
                report(node.metadata.name, removed)

    async def run(self, report: Report) -> None:
        """Remove everything, report each node, and list all nodes once more after the last write.

        Raises KubeError for refused calls, IncompleteError if calls keep failing or what was removed is written again.
        """
        done = await self._pass(report)
        for _ in range(PASSES - 1):
            if not done.written and done.failure is None:
                return
            await asyncio.sleep(max(self._pause, done.failure.retry_after if done.failure else 0.0))
            done = await self._pass(report)
        if done.failure is not None:
            raise IncompleteError(
                f"some nodes could not be cleaned: {done.failure.reason}; run it again"
            )
        if done.written:
            raise IncompleteError(
                f"what was removed is written again, at last on {done.written}: stop the evaluator, then run it again"
            )

    async def _pass(self, report: Report) -> _Pass:
        """Clean all nodes once."""
        result = _Pass()
        async for node in self._nodes():
            done: list[str] = []
            try:
                while removal := next(self._removals(node), None):
                    await asyncio.sleep(self._bucket.take(time.monotonic()))
                    node = await self._send(removal)  # noqa: PLW2901 (the next write names its version)
                    done.append(removal.what)
            except KubeError as error:
                if error.status not in {*_RETRYABLE, _GONE} and error.status < 500:
                    raise
                if error.status != _GONE:
                    result.failure = _Failure(str(error), error.retry_after or 0.0)
            if done:
                result.written = node.metadata.name
                report(node.metadata.name, done)
        return result

    async def _nodes(self) -> AsyncIterator[Node]:
        async for page in self._kube.pages(NODES):
            for raw in page.items:
                yield decode_node(raw)

    def _removals(self, node: Node) -> Iterator[Removal]:
        """Yield the writes for a node; each is valid for the node as given."""
        for removals_of in self._features:
            yield from removals_of(node)

    async def _send(self, removal: Removal) -> Node:
        write = removal.write
        if isinstance(write, LabelApply):
            return await self._kube.apply_node_labels(write)
        return await self._kube.patch_node(
            write.node, write.operations, subresource=write.subresource
        )


class _Policy(msgspec.Struct):
    class Meta(msgspec.Struct):
        name: str
        namespace: str

    metadata: Meta
    status: dict[str, msgspec.Raw] | None = None


async def remove_statuses(kube: Kube, *, dry_run: bool) -> AsyncIterator[PolicyKey]:
    """Remove the status of each policy that has one, or only find them; yield the policies. Raises KubeError."""
    async for policy in _policies(kube):
        key = PolicyKey(policy.metadata.namespace, policy.metadata.name)
        fields = _WRITTEN & (policy.status or {}).keys()
        if fields and not dry_run:
            try:
                await kube.patch_policy_status(key, dict.fromkeys(sorted(fields)))
            except KubeError as error:
                if error.status == _NOT_FOUND:  # deleted since the list
                    continue
                raise
        if fields:
            yield key


async def _policies(kube: Kube) -> AsyncIterator[_Policy]:
    """Yield all policies; none without their CRD."""
    try:
        async for page in kube.pages(POLICIES):
            for raw in page.items:
                try:
                    yield msgspec.json.decode(raw, type=_Policy)
                except UNREADABLE:
                    continue  # without a status that the evaluator has written
    except KubeError as error:
        if error.status != _NOT_FOUND:
            raise
