"""Messages about gangs. Each is one sentence that changes only if the gang's situation does. No I/O."""

from evaluator.features.gangs.core.packing import Shortage
from evaluator.features.gangs.core.podgroup import PodGroup, about
from plimsoll.text import counted

SCHEDULED = "all pods have nodes"
RELEASED = "ungated; kube-scheduler is finding nodes for its pods"
TIMED_OUT = (
    "ungated, but kube-scheduler has not found nodes for all pods in time; other gangs proceed"
)
WORKS = "minAvailable pods have nodes; kube-scheduler has found none for the others yet"
WAITS_FOR_TURN = "complete, waiting for its turn: other gangs go first"


def incomplete(gang: PodGroup, *, admitted: bool) -> str:
    """Return how many of the required pods exist."""
    sentence = f"{gang.existing} of {gang.minimum} pods of podGroup {gang.key.name} exist"
    return (
        f"{sentence}; it was admitted before and waits for replacements" if admitted else sentence
    )


def gated_by_others(gang: PodGroup) -> str:
    """Return which gates of others hold its pods."""
    gates = sorted({gate for pod in gang.foreign for gate in about(pod).foreign})
    pods = counted(len(gang.living), "pod")
    held = counted(len(gang.foreign), f"of its {pods} is held", f"of its {pods} are held")
    return f"{held} by other gates ({', '.join(gates)}); {gang.minimum} must be without them"


def not_lifted(why: str) -> str:
    """Return the API server's error."""
    return f"its gates could not be removed; retrying: {why}"


def waits_for_capacity(gang: PodGroup, shortage: Shortage) -> str:
    """Return which resource is short now."""
    pods = _pods(gang, shortage)
    if not shortage.nodes:
        return f"complete, but {_policies(gang)} rejects every node that {pods} could run on"
    return f"complete, waiting for capacity for {pods}; short of {shortage.short}"


def too_large(gang: PodGroup, shortage: Shortage) -> str:
    """Return which resource would be short on empty nodes."""
    pods = _pods(gang, shortage)
    if not shortage.nodes:
        return f"no node can run {pods}, even if empty: excluded by node selector, affinity, taints or readiness"
    return f"too large: even empty nodes have no capacity for {pods}; short of {shortage.short}"


def _pods(gang: PodGroup, shortage: Shortage) -> str:
    if gang.key.alone:
        return "this pod"
    there = len(gang.living)
    return (
        f"its {there} pods"
        if shortage.requested == there
        else f"{shortage.requested} of its {there} pods"
    )


def _policies(gang: PodGroup) -> str:
    names = sorted({str(policy) for pod in gang.releasable if (policy := about(pod).policy)})
    return f"policy {' and '.join(names)}" if names else "a policy"
