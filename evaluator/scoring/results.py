"""What any scorer may answer, whoever wrote it: what is anything else must not reach kube-scheduler."""

from collections.abc import Iterable, Sequence

import numpy as np

from evaluator.model.node_index import NodeIndex
from evaluator.scoring.plugin import BEST, Scorer, ScorerResult, Scores
from evaluator.scoring.snapshot import NodeRejection


def check(found: ScorerResult, scorer: Scorer, nodes: int) -> None:
    """An answer about so many nodes. Raises ValueError or TypeError; AttributeError for what is not made of arrays."""
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
        raise TypeError(f"scores of {name} that are no integers")
    if scores.size and not 0 <= scores.min() <= scores.max() <= BEST:
        raise ValueError(f"scores of {name} outside 0..{BEST}")


# MERGED DOCSTRING: What an assessment says of the nodes that somebody asks about.


def refused(
    nodes: NodeIndex, refusals: Sequence[NodeRejection], names: Sequence[str]
) -> dict[str, str]:
    """Those of `names` that are refused, each with the first reason. A node that is not known yet is not refused."""
    found: dict[str, str] = {}
    asked = nodes.find(names)
    for refusal in refusals:
        hit = (asked >= 0) & refusal.where[asked] if len(nodes) else asked >= 0
        for place in hit.nonzero()[0].tolist():
            found.setdefault(names[place], refusal.reason)
    return found


def scored(nodes: NodeIndex, scores: Scores, names: Sequence[str]) -> list[tuple[str, int]]:
    """The scores of `names`, in their order, without nodes that are not known yet: to the scheduler these have 0."""
    place = nodes.position
    known = [name for name in names if name in place]
    picked: list[int] = scores[nodes.find(known)].tolist()
    return list(zip(known, picked, strict=True))
