"""What pods ask for, so that those that ask the same are looked at together. No I/O."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from evaluator.model.gang_membership import Where
from evaluator.model.names import PolicyKey
from evaluator.model.pod_record import PodRecord
from evaluator.model.resources import ExtendedResources, ResourceVector


class PodShape(NamedTuple):
    """What pods have in common that fit wherever one of them does."""

    requests: ResourceVector
    others: ExtendedResources
    where: Where
    policy: PolicyKey | None


def shapes(pods: Iterable[PodRecord]) -> Counter[PodShape]:
    """How many pods there are of each shape."""
    return Counter(map(shape, pods))


def shape(pod: PodRecord) -> PodShape:
    """Of one pod."""
    about = pod.membership
    where, policy = (about.where, about.policy) if about else (Where(), None)
    return PodShape(pod.requests, pod.others, where, policy)
