"""Shapes of pods: pods of one shape have equal requests and constraints, and fit on the same nodes. No I/O."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from evaluator.core.model.gangs.membership import PlacementConstraints
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.model.resources import ExtendedResources, ResourceVector


class PodShape(NamedTuple):
    """The requests and constraints that decide where a pod fits."""

    requests: ResourceVector
    others: ExtendedResources
    where: PlacementConstraints
    policy: PolicyKey | None


def shapes(pods: Iterable[PodRecord]) -> Counter[PodShape]:
    """Return the number of pods of each shape."""
    return Counter(map(shape, pods))


def shape(pod: PodRecord) -> PodShape:
    """Return the shape of a pod."""
    about = pod.membership
    where, policy = (about.where, about.policy) if about else (PlacementConstraints(), None)
    return PodShape(pod.requests, pod.others, where, policy)
