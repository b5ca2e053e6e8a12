"""Types of the plan: what the flags permit, what nodes have, and what they should have."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import NodeCondition
from evaluator.core.model.node_index import Floats, Mask, NodeIndex
from evaluator.core.policy.actions import names
from evaluator.core.policy.actions.types import CLUSTER_LIMIT, NodeLimit
from evaluator.core.policy.label_sets import LabelAssignments
from evaluator.features.node_actions.limit import Choice

OwnTaint = tuple[str, str]
"""Key and effect of a taint of ours."""

VALUE = "violating"
"""The value of taints; the numbers are in conditions, since each change would be a write."""


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """What the evaluator's flags permit. `most`: the most nodes with a hard action, over all policies."""

    taints: bool = False
    conditions: bool = False
    no_execute: bool = False
    evict: bool = False
    prefix: str = names.DOMAIN
    condition_types: tuple[str, ...] = ()
    """Permitted condition types beside those of Plimsoll; a `*` at the end stands for any characters."""
    most: NodeLimit = CLUSTER_LIMIT


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
