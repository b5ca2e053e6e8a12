"""A pod as the caches keep it: a record of a few hundred bytes, decoded from a core/v1 Pod.

Times are Unix seconds.
"""

from collections.abc import Set
from sys import intern

import msgspec

from evaluator.model import gang_labels
from evaluator.model import pods as workload
from evaluator.model.gang_membership import Membership
from evaluator.model.pod_demand import PodView
from evaluator.model.pods import FINISHED, ContainerStatus, PodSpecView
from evaluator.model.requests import amounts, effective, others
from evaluator.model.resources import ExtendedResources, ResourceVector
from plimsoll import rfc3339

Key = tuple[str, str]
"""Namespace and name."""


_CRASHING = "CrashLoopBackOff"


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """One pod, as far as anybody asks. Times are Unix seconds; None: not known, or not yet."""

    namespace: str
    name: str
    uid: str
    kind: str
    node: str
    """Empty while it has none."""
    phase: str
    requests: ResourceVector
    bound: float | None
    """Since when it has had its node."""
    created: float | None
    leaving: bool
    """Whether it was told to go."""
    ready: bool
    """Whether all its containers are, as far as its kubelet told of them."""
    restarts: int
    """Of all containers together."""
    crashing: bool
    """Whether a container is being kept from starting anew for having crashed again and again, or ended in failure."""
    crashed: float | None
    """When a container last ended in failure."""
    problems: tuple[str, ...] = ()
    """What could not be read of what it asks for."""
    others: ExtendedResources = ()
    """What it asks for of resources that scorers do not know."""
    membership: Membership | None = None
    """What it says of its gang; None for a pod that names none and that our gate does not hold."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def holds(self) -> bool:
        """Whether it takes room on a node: bound, and not finished. One on its way out does until it is gone."""
        return bool(self.node) and self.phase not in FINISHED

    @property
    def view(self) -> PodView:
        """What scorers see of it."""
        name = f"{self.namespace}/{self.name}"
        return PodView(name, self.uid, self.kind, amounts(self.requests))


def decode(raw: msgspec.Raw, ignored: Set[str] = frozenset()) -> PodRecord:
    """A Resident out of a Pod's JSON; `ignored`: see `evaluator.model.requests.others`.

    Raises what `evaluator.model.decode.UNREADABLE` names.
    """
    return pod_record(workload.decode(raw), ignored)


def pod_record(pod: PodSpecView, ignored: Set[str] = frozenset()) -> PodRecord:
    """What is kept of a pod."""
    meta, status = pod.metadata, pod.status
    asked, (more, unread) = effective(pod), others(pod, ignored)
    told, seen = status.container_statuses or (), list(pod.containers_seen)
    return PodRecord(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        kind=intern(pod.kind) if pod.kind != meta.name else meta.name,
        node=intern(pod.spec.node_name),
        phase=intern(status.phase),
        requests=asked.requests,
        bound=rfc3339.parse_or_none(pod.bound_at) if pod.spec.node_name else None,
        created=rfc3339.parse_or_none(meta.creation_timestamp),
        leaving=meta.deletion_timestamp is not None,
        ready=bool(told) and all(container.ready for container in told),
        restarts=sum(container.restart_count for container in seen),
        crashing=any(map(_is_crashing, seen)),
        crashed=max((at for container in seen if (at := _crashed(container))), default=None),
        problems=asked.problems + unread,
        others=more,
        membership=gang_labels.membership(pod),
    )


def _is_crashing(container: ContainerStatus) -> bool:
    if (state := container.state) is None:
        return False
    if state.terminated is not None:
        return state.terminated.exit_code != 0
    return state.waiting is not None and state.waiting.reason == _CRASHING


def _crashed(container: ContainerStatus) -> float | None:
    for state in (container.state, container.last_state):
        if state is not None and state.terminated is not None and state.terminated.exit_code:
            return rfc3339.parse_or_none(state.terminated.finished_at)
    return None
