"""Names in the Kubernetes API that several packages share: labels, annotations, keys of objects."""

from typing import NamedTuple

POLICY_LABEL = "telemetry-policy"
"""A pod's label that names the policy it follows, in its own namespace."""


class PolicyKey(NamedTuple):
    """Where a policy lives."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
