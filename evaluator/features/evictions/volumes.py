"""Whether the volumes of a pod can follow it to another node: local ones cannot. Read right before the pod is evicted."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import msgspec

from evaluator.core.kube.transport import KubeError
from evaluator.core.model.feasibility import matches_selector
from evaluator.core.model.names import UNREADABLE
from evaluator.core.model.node import Node
from evaluator.core.model.pod import NodeSelector, Pod


class VolumeReader(Protocol):
    """Reads volumes. Both methods raise KubeError."""

    async def read_claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A PersistentVolumeClaim; None if there is none."""
        ...

    async def read_volume(self, name: str) -> dict[str, Any] | None:
        """A PersistentVolume; None if there is none."""
        ...


async def obstacle(
    pod: Pod, nodes: Collection[str], known: Mapping[str, Node], kube: VolumeReader
) -> str:
    """Return why the volumes of a pod keep its successor from all these nodes, as a phrase; empty if they do not.

    Volumes that cannot be read keep it.
    """
    left = list(nodes)
    for claim in pod.spec.apart.claims:
        try:
            selector = await _selector(pod.metadata.namespace, claim, kube)
        except (KubeError, *UNREADABLE) as error:
            return f"volumes cannot be read: {error}"[:300]
        if selector is not None:
            left = [node for node in left if matches_selector(selector, known.get(node))]
        if not left:
            return "volumes such as local ones are on no other node that is eligible"
    return ""


async def _selector(namespace: str, claim: str, kube: VolumeReader) -> NodeSelector | None:
    """Return the nodes from which the volume of a claim can be used; None if from all. Raises KubeError and UNREADABLE."""
    found = await kube.read_claim(namespace, claim)
    name = ((found or {}).get("spec") or {}).get("volumeName")
    volume = await kube.read_volume(str(name)) if name else None
    affinity = ((volume or {}).get("spec") or {}).get("nodeAffinity") or {}
    required = affinity.get("required")
    return msgspec.convert(required, NodeSelector) if required is not None else None
