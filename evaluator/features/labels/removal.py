"""Removes our labels from a node, for the command `clean`."""

from collections.abc import Iterator

from evaluator.core.model import node_labels
from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.writes.removal import Removal


def removals(_options: FeatureOptions, node: Node) -> Iterator[Removal]:
    """Yield the write that removes the labels that our field manager owns."""
    if apply := node_labels.compare(node.metadata.name, node.node_labels, {}).apply:
        labels = ", ".join(sorted(node.metadata.owned_labels))
        yield Removal(f"label {labels}", apply)
