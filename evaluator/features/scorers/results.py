"""Validates scorers' results and selects the requested nodes; invalid results must not reach kube-scheduler."""

from collections.abc import Iterable, Sequence

import numpy as np

from evaluator.core.model.node_index import NodeIndex
from evaluator.features.scorers.plugin import BEST, Scorer, ScorerResult, Scores
from evaluator.features.scorers.snapshot import NodeRejection


def check(found: ScorerResult, scorer: Scorer, nodes: int) -> None:
    """Validate a result for `nodes` nodes. Raises ValueError or TypeError; AttributeError if it is not made of arrays."""
    masks = [refusal.where for refusals in found.refusals.values() for refusal in refusals]
    if found.missing is not None:
        masks.append(found.missing)
    for mask in masks:
        if mask.dtype != np.bool_:
            raise TypeError(f"a mask of {mask.dtype}")
    for array in (*masks, *found.scores.values(), *found.facts.values()):
        if array.shape != (nodes,):
            raise ValueError(f"an array of {array.shape} for {nodes} nodes")
    _check_names("predicates", found.refusals, scorer.predicates)
    _check_names("priorities", found.scores, scorer.priorities)
    for name, scores in found.scores.items():
        _check_scores(name, scores)


def _check_names(what: str, used: Iterable[str], own: Iterable[str]) -> None:
    if others := sorted({*used} - {*own}):
        raise ValueError(f"{what} that are not its own: {', '.join(others)}")


def _check_scores(name: str, scores: Scores) -> None:
    if not np.issubdtype(scores.dtype, np.integer):
        raise TypeError(f"scores of {name} that are not integers")
    if scores.size and not 0 <= scores.min() <= scores.max() <= BEST:
        raise ValueError(f"scores of {name} outside 0..{BEST}")


def refused(
    nodes: NodeIndex, refusals: Sequence[NodeRejection], names: Sequence[str]
) -> dict[str, str]:
    """Return the rejected nodes among `names` with their first reason. Unknown nodes are not rejected."""
    found: dict[str, str] = {}
    positions = nodes.find(names)
    for refusal in refusals:
        hit = (positions >= 0) & refusal.where[positions] if len(nodes) else positions >= 0
        for position in hit.nonzero()[0].tolist():
            found.setdefault(names[position], refusal.reason)
    return found


def scored(nodes: NodeIndex, scores: Scores, names: Sequence[str]) -> list[tuple[str, int]]:
    """Return the scores of `names`, in order; unknown nodes are left out, which the scheduler reads as 0."""
    position = nodes.position
    known = [name for name in names if name in position]
    selected: list[int] = scores[nodes.find(known)].tolist()
    return list(zip(known, selected, strict=True))
