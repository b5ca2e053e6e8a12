"""Events on nodes that wait to be written: places per node, and the nodes in turn. Pure.

A node with many delays and displaces its own Events only.
"""

from typing import NamedTuple

from evaluator.core.model.events import MOST_TIMES

MOST_OF_NODE, MOST = 20, 2000
"""Different events that wait, of one node and of all; a node without one has a place even when all are taken."""


class NodeEvent(NamedTuple):
    """What happened on a node, `times` times. `source`: events of different sources are different Events."""

    source: str
    reason: str
    message: str
    times: int = 1


class EventId(NamedTuple):
    """What makes two of them one Event."""

    node: str
    source: str
    reason: str


class WaitingEvents:
    """What occurred and is not yet written, by node, in the order of their turns."""

    def __init__(self) -> None:
        self._of_node: dict[str, dict[EventId, NodeEvent]] = {}
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def add(self, node: str, event: NodeEvent) -> bool:
        """Add an event, or its times to one that waits; return False without a place for it."""
        found, key = self._of_node.get(node, {}), EventId(node, event.source, event.reason)
        if (before := found.get(key)) is not None:
            found[key] = event._replace(times=min(MOST_TIMES, before.times + event.times))
            return True
        if found and (len(found) >= MOST_OF_NODE or self._number >= MOST):
            return False
        self._of_node.setdefault(node, {})[key] = event
        self._number += 1
        return True

    def pop(self) -> tuple[EventId, NodeEvent]:
        """Remove and return the oldest event of the node whose turn it is. Raises StopIteration if none waits."""
        node = next(iter(self._of_node))
        found = self._of_node.pop(node)
        key = next(iter(found))
        event = found.pop(key)
        self._number -= 1
        if found:
            self._of_node[node] = found  # behind the others
        return key, event

    def clear(self) -> None:
        """Remove all."""
        self._of_node.clear()
        self._number = 0
