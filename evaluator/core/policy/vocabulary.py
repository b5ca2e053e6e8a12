"""What rules of policies may name beside the metrics of nodes: what the features of this evaluator provide."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of policies that features define.

    `derived`: metrics that a feature computes for a node and a pod. They are not requested from sources, and are
    compared for each pod where kube-scheduler asks about one.
    """

    derived: frozenset[str] = frozenset()


NO_FEATURES = Vocabulary()
"""Without features, every metric is one of nodes."""


def merged(parts: Iterable[Vocabulary]) -> Vocabulary:
    """Return the words of several features."""
    return Vocabulary(frozenset[str]().union(*(part.derived for part in parts)))
