"""Typed actions of a policy; `parse` creates them from the annotations of a TASPolicy."""

import math
from dataclasses import dataclass
from enum import StrEnum

from plimsoll.text import shown


class Action(StrEnum):
    """What a policy does to nodes that violate it."""

    LABEL = "label"
    TAINT = "taint"
    CONDITION = "condition"


class TaintEffect(StrEnum):
    """The effect of a taint, weakest first."""

    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"

    @property
    def hard(self) -> bool:
        """Whether pods cannot be scheduled on the node."""
        return self is not TaintEffect.PREFER_NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class NodeLimit:
    """A number of nodes, or a percentage of them that is rounded up."""

    number: float
    percent: bool = False

    def of(self, nodes: int) -> int:
        """Return the limit among this many nodes."""
        return math.ceil(self.number * nodes / 100) if self.percent else int(self.number)

    def __str__(self) -> str:
        return f"{self.number:g}%" if self.percent else f"{self.number:g}"


def node_limit(text: str) -> NodeLimit:
    """Return the limit written as `5` or `20%`. Raises ValueError."""
    digits = text.removesuffix("%")
    try:
        number = float(digits) if digits != text else float(int(digits))
    except ValueError:
        number = math.nan
    if not 0 <= number <= (100 if digits != text else 1e6):
        raise ValueError(f"{shown(text)} is neither a number of nodes (5) nor a percentage (20%)")
    return NodeLimit(number, digits != text)


DEFAULT_LIMIT = NodeLimit(20, percent=True)
"""Of the nodes that a policy can match."""
CLUSTER_LIMIT = NodeLimit(30, percent=True)
"""Of all nodes, over all policies."""


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of one policy.

    `condition`: the type of the node condition. `limit`: the most nodes that get hard taints or lose pods;
    `limits_all`: the policy's author wrote it, so it limits soft taints too.
    """

    kinds: frozenset[Action] = frozenset({Action.LABEL})
    effect: TaintEffect = TaintEffect.PREFER_NO_SCHEDULE
    condition: str = ""
    limit: NodeLimit = DEFAULT_LIMIT
    limits_all: bool = False


LABELS_ONLY = Actions()
"""Telemetry Aware Scheduling's behaviour."""
