"""What any scorer may answer, whoever wrote it: what is anything else must not reach kube-scheduler."""

from collections.abc import Iterable

import numpy as np

from evaluator.scoring.protocol import BEST, Assessment, Scorer, Scores


def check(found: Assessment, scorer: Scorer, nodes: int) -> None:
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
