"""Mappings over masks: names and texts are built on first access, and cached. The texts are made in `reasons`."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from evaluator.core.model.node_index import Mask, NodeIndex, NodeMask
from evaluator.core.policy import reasons as texts
from evaluator.core.policy.evaluate import Violations
from evaluator.core.policy.types import Strategy

_FEW = 0.25
"""Share of changed nodes up to which a copy of the earlier dict is updated; above, a new one is as fast."""


class ViolationReasons(Mapping[str, str]):
    """Node → why it violates a strategy, in no particular order.

    A lazy mapping: the dict is built on the first look-up. If the previous decision's was built, then from a copy of that,
    since most nodes keep their reason.
    """

    def __init__(
        self, policy: str, strategy: Strategy, nodes: NodeIndex, found: Violations
    ) -> None:
        self.policy = policy
        self.strategy = strategy
        self.found = found
        self.nodes = NodeMask(nodes, found.violated)
        self._earlier: tuple[Violations, dict[str, str]] | None = None
        """An earlier result and its dict."""

    @cached_property
    def by_name(self) -> dict[str, str]:
        """The dict; read-only."""
        earlier, self._earlier = self._earlier, None
        if earlier is not None:
            found, by_name = earlier
            changed = self.found.changed_since(found)
            if np.count_nonzero(changed) <= _FEW * len(changed):
                return self._updated(by_name, changed)
        return texts.reasons(self.policy, self.strategy, self.nodes.nodes, self.found)

    def _updated(self, earlier: dict[str, str], changed: Mask) -> dict[str, str]:
        """Return a copy of an earlier dict, with the changed nodes updated."""
        by_name = earlier.copy()
        for name in self.nodes.nodes.at(changed & ~self.found.violated):
            by_name.pop(name, None)
        by_name.update(self.some(changed))
        return by_name

    def some(self, among: Mask) -> dict[str, str]:
        """Return the reasons of the violating nodes in a mask, without building those of the others."""
        found = replace(self.found, violated=self.found.violated & among)
        return texts.reasons(self.policy, self.strategy, self.nodes.nodes, found)

    def reuse(self, before: Mapping[str, str]) -> Mapping[str, str]:
        """Return `before` if it is equal, else self, which reuses the dict of `before` if that was built."""
        if (
            not isinstance(before, ViolationReasons)
            or before.nodes.nodes is not self.nodes.nodes
            or before.policy != self.policy
            or before.strategy != self.strategy
        ):
            return self
        if before.found.same(self.found):
            return before
        if "by_name" in vars(before):  # not `before` itself: it would keep all its predecessors
            self._earlier = (before.found, before.by_name)
        return self

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
