"""Pods indexed by the policy that their label names."""

import itertools
from collections.abc import Callable, Collection

from evaluator.core.model.names import POLICY_LABEL, PolicyKey
from evaluator.core.model.pod import Pod


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
                self._namespaces[policy.name].discard(policy.namespace)
                if not self._namespaces[policy.name]:
                    del self._namespaces[policy.name]
        if after is not None and self._counts(after) and (policy := policy_of(after)):
            self._pods.setdefault(policy, {})[after.metadata.name] = after
            self._namespaces.setdefault(policy.name, set()).add(policy.namespace)
            self._versions[policy] = next(self._numbers)
