"""The cached form of a pod: a record of a few hundred bytes, decoded from a core/v1 Pod.

Times are Unix seconds.
"""

from collections.abc import Callable, Set
from functools import lru_cache
from sys import intern
from typing import Any

import msgspec

from evaluator.core.model import pod_spec_view
from evaluator.core.model.apart import NOTHING_APART, Apart
from evaluator.core.model.pod_spec_view import FINISHED, ContainerStatus, PodSpecView
from evaluator.core.model.requests import PodView, amounts, effective, others
from evaluator.core.model.resources import ExtendedResources, ResourceVector
from plimsoll import rfc3339

Extra = Callable[[PodSpecView], object]
"""Returns what a feature keeps of a pod: comparable, and small, since there may be 100,000. May raise `evaluator.core.model.names.UNREADABLE`."""
Key = tuple[str, str]
"""Namespace and name."""


Labels = tuple[tuple[str, str], ...]
"""Keys and values, sorted."""

_CRASHING = "CrashLoopBackOff"
_KEPT = 1 << 12
"""Sets of labels that are shared: all pods of a ReplicaSet have the same."""


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """One cached pod. Times are Unix seconds; None: unknown, or not yet."""

    namespace: str
    name: str
    uid: str
    kind: str
    node: str
    """Empty if the pod is not bound."""
    phase: str
    requests: ResourceVector
    bound: float | None
    """When it was bound."""
    created: float | None
    leaving: bool
    """Whether it is being deleted."""
    ready: bool
    """Whether all containers are ready by the kubelet's status."""
    restarts: int
    """Sum over all containers."""
    crashing: bool
    """Whether a container is in CrashLoopBackOff or terminated with an error."""
    crashed: float | None
    """When a container last terminated with an error."""
    problems: tuple[str, ...] = ()
    """Requests that could not be parsed, as sentences."""
    others: ExtendedResources = ()
    """Requests for extended resources."""
    extra: Any = None
    """What a feature keeps of the pod, see `Extra`; None without one."""
    labels: Labels = ()
    """Empty unless they are needed."""
    apart: Apart = NOTHING_APART
    """What keeps others from its node, only: its required anti-affinity and host ports. Nothing unless it is needed."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def holds(self) -> bool:
        """Whether the pod uses resources of a node: bound and not finished. A pod being deleted still does."""
        return bool(self.node) and self.phase not in FINISHED

    @property
    def view(self) -> PodView:
        """The pod as scorers see it."""
        name = f"{self.namespace}/{self.name}"
        return PodView(name, self.uid, self.kind, amounts(self.requests))


def decode(
    raw: msgspec.Raw,
    ignored: Set[str] = frozenset(),
    *,
    labels: bool = False,
    apart: bool = False,
    extra: Extra | None = None,
) -> PodRecord:
    """Return the PodRecord of a Pod's JSON; `ignored`: see `evaluator.core.model.requests.others`. `labels`, `apart`: keep them.

    Raises `evaluator.core.model.names.UNREADABLE` for malformed JSON.
    """
    pod = pod_spec_view.decode(raw)
    return pod_record(pod, ignored, labels=labels, apart=apart, extra=extra)


def pod_record(
    pod: PodSpecView,
    ignored: Set[str] = frozenset(),
    *,
    labels: bool = False,
    apart: bool = False,
    extra: Extra | None = None,
) -> PodRecord:
    """Return the PodRecord of a decoded pod."""
    meta, status = pod.metadata, pod.status
    effective_request, (extended, unread) = effective(pod), others(pod, ignored)
    main_statuses, statuses = status.container_statuses or (), list(pod.all_container_statuses)
    return PodRecord(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        kind=intern(pod.kind) if pod.kind != meta.name else meta.name,
        node=intern(pod.spec.node_name),
        phase=intern(status.phase),
        requests=effective_request.requests,
        bound=rfc3339.parse_or_none(pod.bound_at) if pod.spec.node_name else None,
        created=rfc3339.parse_or_none(meta.creation_timestamp),
        leaving=meta.deletion_timestamp is not None,
        ready=bool(main_statuses) and all(container.ready for container in main_statuses),
        restarts=sum(container.restart_count for container in statuses),
        crashing=any(map(_is_crashing, statuses)),
        crashed=max((at for container in statuses if (at := _crashed(container))), default=None),
        problems=effective_request.problems + unread,
        others=extended,
        extra=extra(pod) if extra is not None else None,
        labels=_shared(tuple(sorted(meta.labels.items()))) if labels and meta.labels else (),
        apart=pod.spec.apart if apart else NOTHING_APART,
    )


@lru_cache(_KEPT)
def _shared(labels: Labels) -> Labels:
    """Return equal labels as one object."""
    return tuple((intern(key), intern(value)) for key, value in labels)


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
