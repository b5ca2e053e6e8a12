"""Names in the Kubernetes API that several packages share: labels, annotations, keys of objects."""

from typing import NamedTuple

POLICY_LABEL = "telemetry-policy"
"""The pod label that names its policy, in the pod's namespace."""
EXTENDER_RESOURCE = "telemetry/scheduling"
"""The resource that a pod requests so that kube-scheduler calls the extender."""

ENFORCEMENT = "plimsoll.io/enforcement"
"""The annotation of a policy that is only observed: `observe`; `enforce` is the default."""
PLACED_SINCE = "plimsoll.io/placed-since"
"""The annotation of a policy by which pods placed since a reading count: `count`, the default, or `ignore`."""
RANKING = "plimsoll.io/ranking"
"""The annotation of a policy by which nodes are scored: `rank`, the default, `value` or `headroom`."""


class PolicyKey(NamedTuple):
    """Namespace and name of a policy."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
