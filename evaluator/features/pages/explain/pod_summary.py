"""Whether Plimsoll turns a pod away, and why the pod waits, as a sentence.

A refusal counts only if kube-scheduler reports it: without an answer of the extender there is none.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.model.names import EXTENDER_RESOURCE
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_spec_view import FINISHED
from evaluator.core.placement.explain import PlacedPods
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.violations import refuses
from evaluator.features.pages.kinds import PodPolicy
from plimsoll.text import counted

_FAILED = "kube-scheduler's last attempt ended in an error, not in a refusal: see its message"


def no_pods(_position: int) -> Iterator[PlacedPods]:
    """Yield nothing: the readings include all pods."""
    yield from ()


@dataclass(frozen=True)
class PodContext:
    """What the evaluator knows of a pod: the decision of its policy (None: it has none), and what scorers refuse.

    `scorers`: node → the scorers that refuse it. `scorer_reasons`: the texts that they refuse nodes with. `waiting_for`: what
    is missing before this replica is ready.
    """

    decisions: Decisions
    nodes: Mapping[str, Node]
    decision: Decision | None = None
    scorers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scorer_reasons: Collection[str] = ()
    waiting_for: Sequence[str] = ()
    placed: Callable[[int], Iterator[PlacedPods]] = no_pods
    """Yields what counts on the node at a position beside its readings, by metric."""


class CheckedNodes(NamedTuple):
    """Nodes by what refuses them; a node is in the first list that fits."""

    obstacles: dict[str, list[str]]
    """Node → why kube-scheduler itself does not bind the pod there."""
    refused: list[str]
    """Feasible nodes that the policy refuses."""
    unreported: list[str]
    """Feasible nodes whose first reading is awaited: the extender answers 503."""
    by_scorers: list[str]
    left: list[str]


class Attempt(NamedTuple):
    """What kube-scheduler reported of its last attempt; None if it reported no failed one."""

    reason: str | None
    message: str | None
    requests_decide: str
    """That requests leave no room, as a sentence; empty if they do."""


def attempt(pod: Pod) -> Attempt:
    """Return what kube-scheduler reported of its last attempt."""
    failed = pod.failed_attempt
    message = failed.message if failed else ""
    lacking = {what: int(nodes) for nodes, what in _INSUFFICIENT.findall(message)}
    reason = failed.reason or None if failed else None
    return Attempt(reason, message or None, _requests_decide(lacking))


def _requests_decide(lacking: Mapping[str, int]) -> str:
    """Return that requests leave no room, as a sentence; empty if they do. `lacking`: resource → nodes without enough of it."""
    lacking = {what: nodes for what, nodes in lacking.items() if what != EXTENDER_RESOURCE}
    if not lacking:
        return ""
    parts = [f"of {what} on {counted(nodes, 'node')}" for what, nodes in lacking.items()]
    return (
        f"requests decide: the pods of a node request too much {' and '.join(parts)}, whatever they use; "
        "no ranking changes that, only lower requests or more nodes do"
    )


_INSUFFICIENT = re.compile(r"\b(\d{1,9}) Insufficient ([\w./-]{1,300})", re.ASCII)
"""In kube-scheduler's message: how many nodes have too little of a resource."""


def summary(
    pod: Pod, context: PodContext, policy: PodPolicy | None, checked: CheckedNodes
) -> tuple[bool | None, str]:
    """Return whether Plimsoll turns the pod away (None: unknown), and why it waits, as a sentence."""
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    if pod.status.phase in FINISHED:
        return False, f"it has finished: {pod.status.phase}"
    if pod.spec.node_name:
        return False, f"it is bound to {pod.spec.node_name}"
    if gates:
        held = f"it is held by {counted(len(gates), 'scheduling gate')}: {', '.join(gates)}"
        return False, held
    if context.waiting_for and policy is not None:
        return None, f"unknown: the evaluator waits for {', '.join(context.waiting_for)}"
    feasible = len(context.decisions.table.nodes) - len(checked.obstacles)
    if refuses_it := _refuses_nominated(pod, policy, checked):
        return True, (
            f"nominated to {pod.nominated_node}, which {refuses_it}: kube-scheduler keeps room there in vain; "
            "see whether its configuration has preemptVerb (plimsoll configure-scheduler --check)"
        )
    if not feasible:
        return False, "no node fits: see the obstacles of each node"
    return _of_attempt(pod, context, policy, checked, feasible)


def _refuses_nominated(pod: Pod, policy: PodPolicy | None, checked: CheckedNodes) -> str:
    """Return what refuses the pod on the node that it is nominated to, as the end of a sentence; empty if nothing does."""
    if not (node := pod.nominated_node):
        return ""
    if policy and node in checked.refused:
        return f"policy {policy.name} refuses"
    return "scorers refuse" if node in checked.by_scorers else ""


def _of_attempt(
    pod: Pod,
    context: PodContext,
    policy: PodPolicy | None,
    checked: CheckedNodes,
    feasible: int,
) -> tuple[bool | None, str]:
    """Return the summary of a pod that kube-scheduler can place: what it reported of its last attempt, and what is so now."""
    if checked.left:
        left = f"{len(checked.left)} of {counted(feasible, 'feasible node')}"
        permitted = f"{_permitted(policy)} on {left}"
        if _failed(pod) and (pod.spec.requests_extender or context.scorers):
            return None, f"{_FAILED}; {permitted}"
        return False, permitted
    refusal = _refusal(policy, checked, feasible)
    if pod.failed_attempt is None:
        return None, f"kube-scheduler has reported no attempt; {refusal}"
    if _failed(pod):
        return None, f"{_FAILED}; {refusal}"
    if not _refused(pod, context):
        return False, f"kube-scheduler reports other reasons, none of Plimsoll; {refusal}"
    return True, _refusal(policy, checked, feasible, answered=True)


def _failed(pod: Pod) -> bool:
    """Return whether the last attempt ended in an error; an extender that does not answer is one."""
    return pod.failed_attempt is not None and pod.failed_attempt.reason != "Unschedulable"


def _refused(pod: Pod, context: PodContext) -> bool:
    """Return whether kube-scheduler's message has a reason of the pod's policy or of a scorer."""
    message, key = pod.unschedulable_because, policy_of(pod)
    return (key is not None and refuses(key.name, message)) or any(
        reason in message for reason in context.scorer_reasons
    )


def _refusal(
    policy: PodPolicy | None,
    checked: CheckedNodes,
    feasible: int,
    *,
    answered: bool = False,
) -> str:
    """Return which nodes are refused, or, unless `answered`, would be."""
    verb, plural = ("refuses", "refuse") if answered else ("would refuse", "would refuse")
    parts = []
    if checked.refused and policy:
        parts.append(f"policy {policy.name} {verb} {len(checked.refused)}")
    if checked.unreported and policy:
        parts.append(f"policy {policy.name} awaits the first readings of {len(checked.unreported)}")
    if checked.by_scorers:
        parts.append(f"scorers {plural} {len(checked.by_scorers)}")
    return f"{' and '.join(parts)} of {counted(feasible, 'feasible node')}"


def _permitted(policy: PodPolicy | None) -> str:
    if policy is None:
        return "it names no policy; Plimsoll permits it"
    if not policy.applies:
        return f"{policy.problem}; Plimsoll permits it"
    if policy.mode == "observe":
        return f"policy {policy.name} is only observed; Plimsoll permits it"
    return f"policy {policy.name} permits it"
