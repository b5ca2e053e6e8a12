"""What is told of gangs that wait, each in one sentence that stays the same while the gang stands as it does. No I/O."""

from evaluator.gangs.core.packing import Shortage
from evaluator.gangs.core.podgroup import PodGroup, about
from plimsoll.text import counted

SCHEDULED = "all of its pods have nodes"
RELEASED = "no gate of ours holds its pods: kube-scheduler is finding nodes"
TIMED_OUT = "its gates are lifted, but kube-scheduler has not found nodes for all of its pods in time; others go on"
WORKS = (
    "as many of its pods have nodes as it needs; kube-scheduler has found none for the others yet"
)
WAITS_FOR_TURN = "complete, and waits for its turn: others go first"


def incomplete(gang: PodGroup, *, admitted: bool) -> str:
    """How many pods there are, of how many."""
    sentence = f"{gang.existing} of {gang.minimum} pods of podGroup {gang.key.name} exist"
    return (
        f"{sentence}; it was admitted before, and waits for those that it lost"
        if admitted
        else sentence
    )


def gated_by_others(gang: PodGroup) -> str:
    """Whose gates hold its pods."""
    gates = sorted({gate for pod in gang.foreign for gate in about(pod).foreign})
    pods = counted(len(gang.living), "pod")
    held = counted(len(gang.foreign), f"of its {pods} is held", f"of its {pods} are held")
    return f"{held} by other gates ({', '.join(gates)}); {gang.minimum} have to be free of them"


def not_lifted(why: str) -> str:
    """What the API server said."""
    return f"its gates could not be lifted, which is tried again: {why}"


def waits_for_room(gang: PodGroup, shortage: Shortage) -> str:
    """What there is too little of."""
    who = _pods(gang, shortage)
    if not shortage.nodes:
        return f"complete, but {_policies(gang)} keeps {who} off each node that has what is asked of it"
    return f"complete, and waits for room for {who}: what is short is {shortage.short}"


def too_large(gang: PodGroup, shortage: Shortage) -> str:
    """What there would be too little of."""
    who = _pods(gang, shortage)
    if not shortage.nodes:
        return f"no node could take {who}, were it empty: node selector, affinity, taints or readiness rule all of them out"
    return f"too large: were the nodes empty, there would not be room for {who}; what is short is {shortage.short}"


def _pods(gang: PodGroup, shortage: Shortage) -> str:
    if gang.key.alone:
        return "this pod"
    there = len(gang.living)
    return (
        f"its {there} pods"
        if shortage.wanted == there
        else f"{shortage.wanted} of its {there} pods"
    )


def _policies(gang: PodGroup) -> str:
    names = sorted({str(policy) for pod in gang.releasable if (policy := about(pod).policy)})
    return f"policy {' and '.join(names)}" if names else "a policy"
