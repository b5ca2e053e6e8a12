"""The causes of readings as agents report them, such as the rule and the device that a reading comes from."""

from collections.abc import Callable, Mapping

from evaluator.core.readings.merged import OF_AGENTS

CauseOf = Callable[[str, str, str], str]
"""Returns the cause of the reading of a metric on a node from a source; empty if none is known."""


def no_cause(_metric: str, _node: str, _source: str) -> str:
    """Return that no cause is known."""
    return ""


class NodeCauses:
    """The causes of the readings of each node by its agent's last report."""

    def __init__(self) -> None:
        self._by_node: dict[str, Mapping[str, str]] = {}

    def report(self, node: str, causes: Mapping[str, str]) -> None:
        """Replace the causes of a node; none when it is deleted."""
        if causes:
            self._by_node[node] = causes
        else:
            self._by_node.pop(node, None)

    def of(self, metric: str, node: str, source: str) -> str:
        """Return the cause of a reading; empty if its agent does not report one, or it is of another source."""
        return self._by_node.get(node, {}).get(metric, "") if source in OF_AGENTS else ""
