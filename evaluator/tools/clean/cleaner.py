"""Removes our labels, taints and conditions from all nodes, node by node."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from evaluator.core.cache.cluster import decode_node
from evaluator.core.kube.client import Kube
from evaluator.core.kube.resources import NODES
from evaluator.core.kube.transport import KubeError
from evaluator.core.model import node_labels
from evaluator.core.model.node import Node
from evaluator.features.node_actions import conditions, taints
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

Report = Callable[[str, Sequence[str]], None]
"""Receives a node's name and what is removed from it."""


class IncompleteError(Exception):
    """Something is left on some nodes after `PASSES` passes; the text says why."""


@dataclass(frozen=True, slots=True)
class Removal:
    """One write: what it removes, and the call."""

    what: str
    call: Callable[[], Awaitable[Node]]


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

    def __init__(self, kube: Kube, prefixes: tuple[str, ...], *, pause: float = _PAUSE) -> None:
        self._kube = kube
        self._prefixes = prefixes
        self._pause = pause
        self._bucket = TokenBucket(_RATE, _BURST)

    async def plan(self, report: Report) -> None:
        """Report what `run()` would remove. Raises KubeError."""
        async for node in self._nodes():
            if found := [removal.what for removal in self._removals(node)]:
                report(node.metadata.name, found)

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
                    node = await removal.call()  # noqa: PLW2901 (the next write names its version)
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
        page = await self._kube.list_page(NODES)
        while True:
            for raw in page.items:
                yield decode_node(raw)
            if not page.more:
                return
            page = await self._kube.list_page(NODES, page.more)

    def _removals(self, node: Node) -> Iterator[Removal]:
        """Yield the writes for a node; each is valid for the node as given."""
        name, kube = node.metadata.name, self._kube
        if states := conditions.compare(node, {}):
            kinds = ", ".join(sorted(states.before))
            yield Removal(
                f"condition {kinds}", partial(kube.patch_node_status, name, states.removal)
            )
        if patch := taints.compare(node, {}, self._prefixes):
            keys = sorted({key for key, _ in taints.own_taints(node, self._prefixes)})
            yield Removal(
                f"taint {', '.join(keys)}", partial(kube.patch_node, name, patch.operations)
            )
        if apply := node_labels.compare(name, node.node_labels, {}).apply:
            labels = ", ".join(sorted(node.metadata.owned_labels))
            yield Removal(f"label {labels}", partial(kube.apply_node_labels, apply))
