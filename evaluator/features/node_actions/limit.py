"""Chooses the nodes that get a hard action, within the limit of a policy and that of the cluster.

Nodes that have the action keep it while they violate the policy, also over the limit; nodes whose action is being taken
off count until it is gone. Then come the nodes that have violated the policy longest, by name if equal.
"""

import math
from dataclasses import dataclass

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import Mask, union
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from plimsoll.text import shown


@dataclass(frozen=True, slots=True)
class NodeLimit:
    """A number of nodes, or a percentage of them that is rounded up."""

    number: float
    percent: bool = False

    def among(self, nodes: int) -> int:
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


def matchable(decision: Decision, violating: Mask, table: MetricTable) -> int:
    """Return the number of nodes that a policy can match, of which its limit is a percentage.

    These are the nodes that violate it or have a usable reading of any of its metrics.
    """
    metrics = sorted(decision.policy.metrics)
    usable = union((table.column(metric).usable for metric in metrics), table.nodes)
    return int(np.count_nonzero(usable | violating))


DEFAULT_LIMIT = NodeLimit(20, percent=True)
"""Of the nodes that a policy can match."""
CLUSTER_LIMIT = NodeLimit(30, percent=True)
"""Of all nodes, over all policies."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes to act on. `held_back`: nodes over the limit; `by_cluster`: that of the cluster holds some of them back."""

    acted: Mask
    held_back: int
    by_cluster: bool


@dataclass(slots=True)
class ClusterLimit:
    """The nodes with a hard action of any policy, and the most of them."""

    acted: Mask
    most: int

    def add(self, mask: Mask) -> None:
        """Add nodes that are acted on."""
        self.acted = self.acted | mask


def choose(
    wanted: Mask, present: Mask, since: Floats, *, most: int, cluster: ClusterLimit | None
) -> Choice:
    """Return which of the `wanted` nodes to act on, at most `most`.

    `present`: nodes that have the action now, or may get it from a write in flight. `since`: when each node began to
    violate the policy. `cluster` is None for actions that do not count there; it is not changed.
    """
    kept = wanted & present
    room = max(0, most - int(np.count_nonzero(present)))
    candidates = (wanted & ~present).nonzero()[0]
    order = candidates[np.argsort(since[candidates], kind="stable")]  # positions are sorted by name
    by_cluster = False
    if cluster is not None:
        new = ~cluster.acted[order]
        left = max(0, cluster.most - int(np.count_nonzero(cluster.acted)))
        permitted = ~new | (np.cumsum(new) <= left)
        by_cluster = bool(np.count_nonzero(permitted) < min(room, len(order)))
        order = order[permitted]
    acted = kept.copy()
    acted[order[:room]] = True
    return Choice(acted, int(np.count_nonzero(wanted & ~acted)), by_cluster)
