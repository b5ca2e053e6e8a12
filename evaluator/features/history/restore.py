"""What the cluster itself keeps of the time before this process: transition times of conditions of policies, nodes and pods."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod
from evaluator.core.policy.types import Policy
from evaluator.core.policy.violations import refuses
from evaluator.core.report import Facts
from evaluator.features.history.records import Kind
from plimsoll import rfc3339


class Restored(NamedTuple):
    """A record from before the start; `at` is Unix seconds."""

    at: float
    kind: Kind
    policy: PolicyKey | None = None
    node: str = ""
    pod: str = ""
    text: str = ""


def restored(
    policies: Iterable[Policy],
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    written: Callable[[Node], Facts],
) -> Iterator[Restored | None]:
    """Yield records, in no order, and None between steps. `written`: what features wrote to a node, as pages show it."""
    for policy in policies:
        for condition in policy.status.get("conditions") or ():
            if (found := _of_policy(policy, condition)) is not None:
                yield found
        yield None
    for node in nodes:
        for condition in written(node).get("conditions", ()):
            if (at := rfc3339.parse_or_none(condition["since"])) is not None:
                text = (
                    f"condition {condition['type']}={condition['status']} ({condition['reason']})"
                )
                yield Restored(at, Kind.WRITTEN, node=node.metadata.name, text=text)
        yield None
    for pod in pods:
        if (found := _of_pod(pod)) is not None:
            yield found
        yield None


def _of_policy(policy: Policy, condition: Any) -> Restored | None:
    """Return when a condition of a policy's status changed; others may have written anything there."""
    if not isinstance(condition, dict):
        return None
    texts = [condition.get(name) for name in ("type", "status", "message", "lastTransitionTime")]
    if not all(isinstance(text, str) for text in texts):
        return None
    kind, status, message, since = texts
    if (at := rfc3339.parse_or_none(since)) is None:
        return None
    return Restored(at, Kind.POLICY, policy.key, text=f"condition {kind}={status}: {message}")


def _of_pod(pod: Pod) -> Restored | None:
    """Return when kube-scheduler bound a pod, or reported that our policy refuses nodes to it."""
    if (key := policy_of(pod)) is None:
        return None
    if pod.spec.node_name and (at := rfc3339.parse_or_none(pod.bound_at)) is not None:
        return Restored(at, Kind.PLACED, key, pod.spec.node_name, str(pod))
    failed = pod.failed_attempt
    if failed is None or not refuses(key.name, failed.message):
        return None
    at = rfc3339.parse_or_none(failed.last_transition_time)
    return None if at is None else Restored(at, Kind.REFUSED, key, "", str(pod), failed.message)
