"""What pods ask for, so that those that ask the same are looked at together. No I/O."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from evaluator.model.gang_membership import Where
from evaluator.model.names import PolicyKey
from evaluator.model.pod_record import Resident
from evaluator.model.resources import Others, Vector


class Shape(NamedTuple):
    """What pods have in common that fit wherever one of them does."""

    requests: Vector
    others: Others
    where: Where
    policy: PolicyKey | None


def shapes(pods: Iterable[Resident]) -> Counter[Shape]:
    """How many pods there are of each shape."""
    return Counter(map(shape, pods))


def shape(pod: Resident) -> Shape:
    """Of one pod."""
    about = pod.membership
    where, policy = (about.where, about.policy) if about else (Where(), None)
    return Shape(pod.requests, pod.others, where, policy)
