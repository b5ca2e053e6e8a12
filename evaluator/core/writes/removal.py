"""What features wrote to a node, and the writes that remove it, for the command `clean`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import LabelApply
from evaluator.core.options import FeatureOptions

Options = TypeVar("Options", bound=FeatureOptions)


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


@dataclass(frozen=True, kw_only=True)
class Written(Generic[Options]):
    """What a feature writes to nodes. `removals` yields the writes that remove it; `options`: the flags of `clean` for it."""

    options: type[Options]
    removals: Callable[[Options, Node], Iterator[Removal]]
