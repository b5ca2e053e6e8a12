"""Pods indexed by the policy that their label names."""

import itertools
from collections.abc import Callable, Collection

from evaluator.model.names import POLICY_LABEL, PolicyKey
from evaluator.model.objects import Pod


def policy_of(pod: Pod) -> PolicyKey | None:
    """Return the policy that a pod's label names, in the pod's namespace."""
    name = (pod.metadata.labels or {}).get(POLICY_LABEL)
    return PolicyKey(pod.metadata.namespace, name) if name else None


class PodsByPolicy:
    """Pods with a policy label for which `counts(pod)` is true."""

    def __init__(self, counts: Callable[[Pod], bool]) -> None:
        self._counts = counts
        self._pods: dict[PolicyKey, dict[str, Pod]] = {}
        self._versions: dict[PolicyKey, int] = {}
        self._numbers = itertools.count(1)

    def of(self, policy: PolicyKey) -> Collection[Pod]:
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
        if after is not None and self._counts(after) and (policy := policy_of(after)):
            self._pods.setdefault(policy, {})[after.metadata.name] = after
            self._versions[policy] = next(self._numbers)
