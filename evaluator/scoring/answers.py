"""What an assessment says of the nodes that somebody asks about."""

from collections.abc import Sequence

from evaluator.nodes import Nodes
from evaluator.scoring.protocol import Scores
from evaluator.scoring.view import Refusal


def refused(nodes: Nodes, refusals: Sequence[Refusal], names: Sequence[str]) -> dict[str, str]:
    """Those of `names` that are refused, each with the first reason. A node that is not known yet is not refused."""
    found: dict[str, str] = {}
    asked = nodes.find(names)
    for refusal in refusals:
        hit = (asked >= 0) & refusal.where[asked] if len(nodes) else asked >= 0
        for place in hit.nonzero()[0].tolist():
            found.setdefault(names[place], refusal.reason)
    return found


def scored(nodes: Nodes, scores: Scores, names: Sequence[str]) -> list[tuple[str, int]]:
    """The scores of `names`, in their order, without nodes that are not known yet: to the scheduler these have 0."""
    place = nodes.place
    known = [name for name in names if name in place]
    picked: list[int] = scores[nodes.find(known)].tolist()
    return list(zip(known, picked, strict=True))
