"""Pods by the policy that their label names: which of them the policy applies to, and what to change about the others."""

import itertools
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from evaluator.core.model.events import EventSpec
from evaluator.core.model.names import EXTENDER_RESOURCE, POLICY_LABEL, PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.policy.strategies import PER_POD
from evaluator.core.policy.types import Policy
from plimsoll.text import NearNames

_COMPARED = 200
"""Policies of a namespace that a name is compared with, to suggest one."""


def policy_of(pod: Pod) -> PolicyKey | None:
    """Return the policy that a pod's label names, in the pod's namespace."""
    name = (pod.metadata.labels or {}).get(POLICY_LABEL)
    return PolicyKey(pod.metadata.namespace, name) if name else None


class PodsByPolicy:
    """Pods with a policy label for which `counts(pod)` is true."""

    def __init__(self, counts: Callable[[Pod], bool]) -> None:
        self._counts = counts
        self._pods: dict[PolicyKey, dict[str, Pod]] = {}
        self._namespaces: dict[str, set[str]] = {}
        self._versions: dict[PolicyKey, int] = {}
        self._numbers = itertools.count(1)

    @property
    def policies(self) -> Collection[PolicyKey]:
        """The policies that pods name, whether or not they exist."""
        return self._pods.keys()

    def namespaces(self, name: str) -> Collection[str]:
        """Return the namespaces with pods that name a policy of this name."""
        return self._namespaces.get(name, ())

    def pods_of(self, policy: PolicyKey) -> Collection[Pod]:
        """Return the pods of a policy."""
        return self._pods.get(policy, {}).values()

    def version(self, policy: PolicyKey) -> int:
        """Return a number that changes whenever a pod of the policy changes; 0 if it has none."""
        return self._versions.get(policy, 0)

    def change(self, before: Pod | None, after: Pod | None) -> None:
        """Replace a pod's previous state by its new state (None: absent)."""
        if before is not None and self._counts(before) and (policy := policy_of(before)):
            pods = self._pods[policy]
            del pods[before.metadata.name]
            self._versions[policy] = next(self._numbers)
            if not pods:
                del self._pods[policy], self._versions[policy]
                self._namespaces[policy.name].discard(policy.namespace)
                if not self._namespaces[policy.name]:
                    del self._namespaces[policy.name]
        if after is not None and self._counts(after) and (policy := policy_of(after)):
            self._pods.setdefault(policy, {})[after.metadata.name] = after
            self._namespaces.setdefault(policy.name, set()).add(policy.namespace)
            self._versions[policy] = next(self._numbers)


class PodCounts(NamedTuple):
    """Pods that name a policy, waiting or running. `ignored`: the policy does not apply to them."""

    following: int = 0
    ignored: int = 0


NO_PODS = PodCounts()


class NotApplied(StrEnum):
    """Why a policy does not apply to a pod that names it."""

    NO_REQUEST = "no_request"
    NO_POLICY = "no_policy"
    OTHER_NAMESPACE = "other_namespace"


def needs_request(policy: Policy) -> bool:
    """Return whether a policy acts when a pod is scheduled; kube-scheduler then has to call the extender."""
    return any(name in policy.strategies for name in PER_POD)


def pod_counts(
    policy: Policy, elsewhere: int, requesting: PodsByPolicy, not_requesting: PodsByPolicy
) -> PodCounts:
    """Count the pods that name a policy; `elsewhere` are those that name it in namespaces without it."""
    following, without = (
        len(requesting.pods_of(policy.key)),
        len(not_requesting.pods_of(policy.key)),
    )
    if not needs_request(policy):
        following, without = following + without, 0
    return PodCounts(following, without + elsewhere)


def pods_elsewhere(
    name: str,
    policies: Collection[PolicyKey],
    requesting: PodsByPolicy,
    not_requesting: PodsByPolicy,
) -> int:
    """Count the pods that name a policy in namespaces without a policy of this name."""
    return sum(
        len(index.pods_of(key))
        for index in (requesting, not_requesting)
        for namespace in index.namespaces(name)
        if (key := PolicyKey(namespace, name)) not in policies
    )


def why_not_applied(
    key: PolicyKey,
    policies: Mapping[PolicyKey, Policy],
    namespaces: Collection[str],
    *,
    requests: bool,
) -> NotApplied | None:
    """Return why a policy does not apply to a pod that names it; None if it does.

    `namespaces` have a policy of this name; `requests`: the pod requests the extender's resource.
    """
    if (policy := policies.get(key)) is None:
        return NotApplied.OTHER_NAMESPACE if namespaces else NotApplied.NO_POLICY
    return None if requests or not needs_request(policy) else NotApplied.NO_REQUEST


def sentence(key: PolicyKey, why: NotApplied, names: Collection[str] = ()) -> str:
    """Return why, and what to do; `names` are policies of the namespace, of which a similar one is suggested."""
    place = f"namespace {key.namespace}" if key.namespace else "the pod's namespace"
    match why:
        case NotApplied.NO_REQUEST:
            return (
                f"policy {key.name} has no effect on where this pod is placed, since the pod does not request "
                f'{EXTENDER_RESOURCE}: add `{EXTENDER_RESOURCE}: "1"` to resources.limits of a container'
            )
        case NotApplied.OTHER_NAMESPACE:
            return (
                f"policy {key.name} does not exist in {place}, only in another one, and a policy "
                "applies to pods of its own namespace: create it there too"
            )
        case NotApplied.NO_POLICY:
            near = NearNames(sorted(names)[:_COMPARED]).find(key.name, 1)
            meant = f", such as {POLICY_LABEL}: {near[0]}" if near else ""
            return (
                f"policy {key.name} does not exist in {place}: create it, or correct the pod's label "
                f"{POLICY_LABEL}{meant}"
            )


def event(key: PolicyKey, why: NotApplied, names: Collection[str] = ()) -> EventSpec:
    """Return the Event on a pod that its policy does not apply to."""
    return EventSpec("Warning", "PolicyNotApplied", sentence(key, why, names))
