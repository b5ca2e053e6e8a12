"""The room that nodes have, and whether pods fit in it together. No I/O.

Pods are put one shape after the other, the largest first, each shape on the nodes in their order as far as they go. That
finds a place for pods of one shape whenever there is one. For pods of several shapes it is a heuristic, as kube-scheduler's
own way is: what fits only by a clever choice of nodes does not count as fitting, since nobody would make that choice.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from evaluator.amounts import Others, Vector
from evaluator.gangs.membership import Where
from evaluator.inventory import Resident
from evaluator.nodes import Floats, Mask, Nodes
from evaluator.policy import PolicyKey


class Shape(NamedTuple):
    """What pods have in common that fit wherever one of them does."""

    requests: Vector
    others: Others
    where: Where
    policy: PolicyKey | None


class Shortage(NamedTuple):
    """Why pods do not fit: `fit` of `wanted`; `nodes` would take one of the shape that does not, were there room."""

    fit: int
    wanted: int
    nodes: int
    shape: Shape | None = None
    """The first for which there is not enough room."""


@dataclass(frozen=True)
class Space:
    """`free` and `whole`: what is free of each node, and what it has in all; by resource and node.

    `allowed` says which nodes may take pods of a policy that ask this of a node. A node of which it is not known what it
    has is in neither.
    """

    nodes: Nodes
    resources: tuple[str, ...]
    free: Floats
    whole: Floats
    allowed: Callable[[Where, PolicyKey | None], Mask]


def shapes(pods: Iterable[Resident]) -> Counter[Shape]:
    """How many pods there are of each shape."""
    return Counter(map(shape, pods))


def shape(pod: Resident) -> Shape:
    """Of one pod."""
    about = pod.membership
    where, policy = (about.where, about.policy) if about else (Where(), None)
    return Shape(pod.requests, pod.others, where, policy)
