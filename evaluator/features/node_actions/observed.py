"""Looks up which nodes have which taints and conditions of ours, as masks."""

from collections.abc import Sequence

import numpy as np

from evaluator.core.model.node_index import Mask, NodeIndex, union
from evaluator.core.policy.actions.types import TaintEffect
from evaluator.features.node_actions.types import Observed, OwnTaint


class ObservedMasks:
    """Masks of the nodes that have a taint or condition of ours."""

    def __init__(self, observed: Observed, nodes: NodeIndex) -> None:
        self._nodes = nodes
        self.conditions = observed.conditions
        self._foreign = observed.foreign
        positions: dict[OwnTaint, list[int]] = {}
        for node, taints in observed.taints.items():
            if (position := nodes.position.get(node)) is not None:
                for taint in taints:
                    positions.setdefault(taint, []).append(position)
        self.taints = {taint: self._mask(found) for taint, found in positions.items()}

    def _mask(self, positions: Sequence[int]) -> Mask:
        mask = np.zeros(len(self._nodes), dtype=bool)
        mask[positions] = True
        return mask

    def tainted(self, key: str, *, hard: bool = False) -> Mask:
        """Return the nodes with a taint of a key."""
        effects = [effect for effect in TaintEffect if effect.hard or not hard]
        return union(
            (self.taints.get((key, e.value), self._nodes.none) for e in effects), self._nodes
        )

    @property
    def hard(self) -> Mask:
        """The nodes with a hard taint of any policy."""
        found = (
            mask
            for (_, effect), mask in self.taints.items()
            if effect != TaintEffect.PREFER_NO_SCHEDULE
        )
        return union(found, self._nodes)

    def foreign(self, kind: str) -> dict[str, Mask]:
        """Return the nodes on which others own a condition, by field manager."""
        found: dict[str, list[int]] = {}
        for node, manager in self._foreign.get(kind, {}).items():
            if (position := self._nodes.position.get(node)) is not None:
                found.setdefault(manager, []).append(position)
        return {manager: self._mask(positions) for manager, positions in found.items()}

    def condition(self, kind: str) -> dict[str, Mask]:
        """Return where a condition has which status and reason."""
        found: dict[str, list[int]] = {}
        for node, condition in self.conditions.get(kind, {}).items():
            if (position := self._nodes.position.get(node)) is not None:
                found.setdefault(f"{condition.status}/{condition.reason}", []).append(position)
        return {value: self._mask(positions) for value, positions in found.items()}
