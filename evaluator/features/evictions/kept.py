"""Which pods are never evicted, whatever their policy and their node: docs/operations.md lists them."""

from evaluator.core.model.pod import DO_NOT_DISRUPT, MIRROR, SAFE_TO_EVICT, Pod
from evaluator.features.evictions.annotations import BARE_PODS, JOBS, AdmittedPods

SYSTEM_PRIORITY = 2_000_000_000
"""The lowest priority of Kubernetes' own classes, such as system-cluster-critical."""

STATIC = "static pods of the kubelet, which an eviction does not move"
SYSTEM = f"their priority is {SYSTEM_PRIORITY:,} or more, that of the system"
ANNOTATED = f"their annotation {SAFE_TO_EVICT} or {DO_NOT_DISRUPT} forbids it"
BARE = "nothing would recreate them"
OF_JOB = "they belong to Jobs: they would begin anew and count as failures"


def why_kept(pod: Pod, admitted: AdmittedPods) -> str:
    """Return why a pod is never evicted, as a phrase about several pods; empty if it may be."""
    annotations = pod.metadata.annotations or {}
    owner = pod.metadata.controller
    if MIRROR in annotations or (owner is not None and owner.kind == "Node"):
        return STATIC
    if pod.spec.priority >= SYSTEM_PRIORITY:
        return SYSTEM
    if _says(annotations.get(SAFE_TO_EVICT), "false") or _says(
        annotations.get(DO_NOT_DISRUPT), "true"
    ):
        return ANNOTATED
    if owner is None:
        return "" if BARE_PODS in admitted.kinds_of_pods else BARE
    if owner.kind == "Job":
        return "" if JOBS in admitted.kinds_of_pods else OF_JOB
    return ""


def _says(value: str | None, word: str) -> bool:
    return value is not None and value.strip().lower() == word
