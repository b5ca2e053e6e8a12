"""Types of the plan: what the flags permit, what nodes have, and what they should have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import NodeCondition
from evaluator.core.model.node_index import Mask, NodeIndex, union
from evaluator.core.policy.label_sets import LabelAssignments
from evaluator.core.policy.stops import NO_STOPS, Stops
from evaluator.features.node_actions import names
from evaluator.features.node_actions.annotations import TaintEffect
from evaluator.features.node_actions.limit import CLUSTER_LIMIT, Choice, NodeLimit

OwnTaint = tuple[str, str]
"""Key and effect of a taint of ours."""

VALUE = "violating"
"""The value of taints; the numbers are in conditions, since each change would be a write."""


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """What the evaluator's flags permit. `most`: the most nodes with a hard action, over all policies.

    `stops`: policies that are frozen keep the actions that they have.
    """

    taints: bool = False
    conditions: bool = False
    no_execute: bool = False
    evict: bool = False
    prefix: str = names.DOMAIN
    condition_types: tuple[str, ...] = ()
    """Permitted condition types beside those of Plimsoll; a `*` at the end stands for any characters."""
    most: NodeLimit = CLUSTER_LIMIT
    stops: Stops = NO_STOPS


@dataclass(frozen=True, slots=True)
class Observed:
    """What nodes have of ours now, or may get from writes in flight; only nodes with any."""

    taints: Mapping[str, frozenset[OwnTaint]] = field(default_factory=dict)
    conditions: Mapping[str, Mapping[str, NodeCondition]] = field(default_factory=dict)
    """By condition type."""
    foreign: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The field managers of conditions that others own, by condition type and node."""


@dataclass(frozen=True)
class PolicyActions:
    """The nodes that one policy acts on. Masks have shape (nodes,).

    `since`: when each node began to violate the policy or ceased to (Unix seconds); NaN if it never did. `choice` is
    None if no limit applies. `problems`: actions that the evaluator's flags do not permit, as constant sentences;
    `conflicts`: conditions that other field managers own, as sentences that name nodes.
    """

    nodes: NodeIndex
    violating: Mask
    since: Floats
    limit: int = 0
    of: int = 0
    choice: Choice | None = None
    problems: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    def may_evict(self, node: str) -> bool:
        """Return whether pods may be evicted from a node."""
        position = self.nodes.position.get(node)
        return self.choice is None or (position is not None and bool(self.choice.acted[position]))

    @property
    def acted(self) -> int:
        """The number of nodes within the limit."""
        return int(np.count_nonzero(self.choice.acted)) if self.choice else 0

    @property
    def held_back(self) -> int:
        """The number of nodes over a limit."""
        return self.choice.held_back if self.choice else 0


@dataclass(frozen=True)
class ActionPlan:
    """The desired taints and conditions of all nodes: key and effect, or type → status and reason.

    `conditions` and `taints` are the same objects as before if nothing changed.
    """

    nodes: NodeIndex = field(default_factory=NodeIndex)
    policies: Mapping[PolicyKey, PolicyActions] = field(default_factory=dict)
    taints: LabelAssignments = field(default_factory=lambda: LabelAssignments(NodeIndex(), ()))
    conditions: LabelAssignments = field(default_factory=lambda: LabelAssignments(NodeIndex(), ()))
    owners: Mapping[str, PolicyKey] = field(default_factory=dict)
    """Condition type → the policy that sets it."""
    acted: int = 0
    """Nodes with a hard action of any policy."""


def taint_name(key: str, effect: str) -> str:
    """Return the name of a taint in `ActionPlan.taints`."""
    return f"{key}:{effect}"


class ObservedMasks:
    """Masks of the nodes that have a taint or condition of ours."""

    def __init__(self, observed: Observed, nodes: NodeIndex) -> None:
        self.nodes = nodes
        self.conditions = observed.conditions
        self._foreign = observed.foreign
        positions: dict[OwnTaint, list[int]] = {}
        for node, taints in observed.taints.items():
            if (position := nodes.position.get(node)) is not None:
                for taint in taints:
                    positions.setdefault(taint, []).append(position)
        self.taints = {taint: self._mask(where) for taint, where in positions.items()}

    def _mask(self, positions: Sequence[int]) -> Mask:
        mask = np.zeros(len(self.nodes), dtype=bool)
        mask[positions] = True
        return mask

    def tainted(self, key: str, *, hard: bool = False) -> Mask:
        """Return the nodes with a taint of a key."""
        effects = [effect for effect in TaintEffect if effect.hard or not hard]
        return union(
            (self.taints.get((key, e.value), self.nodes.none) for e in effects), self.nodes
        )

    @property
    def hard(self) -> Mask:
        """The nodes with a hard taint of any policy."""
        masks = (
            mask
            for (_, effect), mask in self.taints.items()
            if effect != TaintEffect.PREFER_NO_SCHEDULE
        )
        return union(masks, self.nodes)

    def foreign(self, kind: str) -> dict[str, Mask]:
        """Return the nodes on which others own a condition, by field manager."""
        by_manager: dict[str, list[int]] = {}
        for node, manager in self._foreign.get(kind, {}).items():
            if (position := self.nodes.position.get(node)) is not None:
                by_manager.setdefault(manager, []).append(position)
        return {manager: self._mask(positions) for manager, positions in by_manager.items()}

    def condition(self, kind: str) -> dict[str, Mask]:
        """Return where a condition has which status and reason."""
        by_value: dict[str, list[int]] = {}
        for node, condition in self.conditions.get(kind, {}).items():
            if (position := self.nodes.position.get(node)) is not None:
                by_value.setdefault(condition.state, []).append(position)
        return {value: self._mask(positions) for value, positions in by_value.items()}
