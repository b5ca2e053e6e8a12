"""What policies may name beside strategies and the metrics of nodes: what the features of this evaluator provide."""

from collections.abc import Iterable
from dataclasses import dataclass

from evaluator.core.policy.actions import NodeActions


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of policies that features define.

    `derived`: metrics that a feature computes for a node and a pod. They are not requested from sources, and are
    compared for each pod where kube-scheduler asks about one. `actions`: the table of actions on nodes.
    """

    derived: frozenset[str] = frozenset()
    actions: tuple[NodeActions, ...] = ()


NO_FEATURES = Vocabulary()
"""Without features, every metric is one of nodes, and the only action is the label."""


def merged(parts: Iterable[Vocabulary]) -> Vocabulary:
    """Return the words of several features."""
    parts = tuple(parts)
    return Vocabulary(
        frozenset[str]().union(*(part.derived for part in parts)),
        tuple(row for part in parts for row in part.actions),
    )
