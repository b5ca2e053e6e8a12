"""Writes that remove from a node what features wrote to it, for the command `clean`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.core.model.node_labels import LabelApply


@dataclass(frozen=True, slots=True)
class NodeOperations:
    """A JSON patch (RFC 6902) of a node; with `subresource` /status, of its status."""

    node: str
    operations: Sequence[Mapping[str, Any]]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Removal:
    """One write that removes something of ours from a node. It is valid for the node as it was read."""

    what: str
    """As shown to the user, such as `label team-a/busy`."""
    write: NodeOperations | LabelApply
