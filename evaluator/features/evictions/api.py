"""The request that evicts a pod, and the Event on the pod."""

import uuid
from typing import Any, Protocol

from evaluator.core.model import events
from evaluator.core.model.events import EventSpec
from evaluator.core.model.pod import Pod
from evaluator.features.evictions.plan import Eviction
from plimsoll.text import one_line

_LONGEST = 1_024
"""Characters of an Event's message (Kubernetes)."""


class Subresources(Protocol):
    """Creates subresources of pods."""

    async def create_subresource(
        self, namespace: str, name: str, subresource: str, body: dict[str, Any], /
    ) -> object:
        """Create one. Raises KubeError."""
        ...


async def evict(kube: Subresources, pod: Pod) -> None:
    """Evict a pod by the Eviction API. Raises KubeError, with status 429 if a PodDisruptionBudget forbids it."""
    meta = pod.metadata
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
    await kube.create_subresource(meta.namespace, meta.name, "eviction", body)


def event(eviction: Eviction, causes: str = "", *, at: str) -> dict[str, Any]:
    """A core/v1 Event on an evicted pod; `at` is RFC 3339. `causes`: what the readings come from."""
    meta = eviction.pod.metadata
    why = f"Evicted: node {eviction.pod.spec.node_name} {eviction.reason}"
    why = one_line(f"{why} ({causes})" if causes else why, _LONGEST)
    return events.event(
        events.on_pod(meta.namespace, meta.name, meta.uid),
        EventSpec("Warning", "PolicyViolated", why),
        suffix=uuid.uuid4().hex[:16],
        count=1,
        at=at,
    )
