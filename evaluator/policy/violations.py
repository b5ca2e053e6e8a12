"""Mappings over masks: names and texts are built on first access, and cached. The texts are made in `reasons`."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from evaluator.model.node_index import Mask, NodeIndex, NodeMask
from evaluator.policy import reasons as texts
from evaluator.policy.evaluate import Violations
from evaluator.policy.types import Strategy


class ViolationReasons(Mapping[str, str]):
    """Node → why it violates a strategy. A lazy mapping: the dict is built on the first look-up."""

    def __init__(
        self, policy: str, strategy: Strategy, nodes: NodeIndex, found: Violations
    ) -> None:
        self.policy = policy
        self.strategy = strategy
        self.found = found
        self.nodes = NodeMask(nodes, found.violated)

    @cached_property
    def by_name(self) -> dict[str, str]:
        """The dict; read-only."""
        return texts.reasons(self.policy, self.strategy, self.nodes.nodes, self.found)

    def some(self, among: Mask) -> dict[str, str]:
        """Return the reasons of the violating nodes in a mask, without building those of the others."""
        found = replace(self.found, violated=self.found.violated & among)
        return texts.reasons(self.policy, self.strategy, self.nodes.nodes, found)

    def reuse(self, before: Mapping[str, str]) -> Mapping[str, str]:
        """Return `before` if it is equal, else self."""
        same = (
            isinstance(before, ViolationReasons)
            and before.nodes.nodes is self.nodes.nodes
            and before.policy == self.policy
            and before.strategy == self.strategy
            and before.found.same(self.found)
        )
        return before if same else self

    def __len__(self) -> int:
        return self.nodes.count

    def __getitem__(self, node: str) -> str:
        return self.by_name[node]

    def __contains__(self, node: object) -> bool:
        return node in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def keys(self) -> KeysView[str]:
        """Return the keys view of the dict: look-ups in it run without Python calls."""
        return self.by_name.keys()

    def items(self) -> ItemsView[str, str]:
        """Return the items view of the dict."""
        return self.by_name.items()

    def __repr__(self) -> str:
        return repr(self.by_name)


def plain(reasons: Mapping[str, str]) -> Mapping[str, str]:
    """Return the dict behind reasons, for many look-ups without Python calls."""
    return reasons.by_name if isinstance(reasons, ViolationReasons) else reasons


def some_reasons(reasons: Mapping[str, str], among: Mask, nodes: NodeIndex) -> Mapping[str, str]:
    """Return the reasons of the violating nodes in a mask over `nodes`, without building those of the others."""
    if isinstance(reasons, ViolationReasons):
        return reasons.some(among)
    return {name: reasons[name] for name in nodes.at(among) if name in reasons}


def violators(reasons: Mapping[str, str], nodes: NodeIndex) -> Mask:
    """Return the violating nodes as a read-only mask over `nodes`, the nodes of the decision."""
    if isinstance(reasons, ViolationReasons):
        return reasons.nodes.mask
    if not reasons:
        return nodes.none
    return np.fromiter((node in reasons for node in nodes), np.bool_, len(nodes))


class MissingReadings(Mapping[str, Sequence[str]]):
    """Metric → the nodes without a usable reading; metrics that every node has are left out."""

    def __init__(self, unusable: Mapping[str, NodeMask]) -> None:
        self._unusable = {metric: nodes for metric, nodes in unusable.items() if nodes.count}

    def count(self, metric: str) -> int:
        """Return on how many nodes a metric is unusable."""
        found = self._unusable.get(metric)
        return found.count if found else 0

    def __getitem__(self, metric: str) -> Sequence[str]:
        return self._unusable[metric].names

    def __iter__(self) -> Iterator[str]:
        return iter(self._unusable)

    def __len__(self) -> int:
        return len(self._unusable)

    def __repr__(self) -> str:
        return repr(dict(self))
