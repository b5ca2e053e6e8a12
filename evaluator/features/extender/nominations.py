"""Pods for which kube-scheduler made room on a node that their policy refuses: it does so without the preempt verb."""

from collections.abc import Mapping

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.violations import plain
from evaluator.core.policy_status import PolicyPart
from evaluator.core.signals import PolicyPodChanged, PolicyReportChanged, Publish
from plimsoll.text import counted

_NAMED = 3
"""Pods that a message names; the others are counted."""
_NONE: Mapping[str, str] = {}


class Nominations:
    """The nominated nodes of waiting pods, by policy and pod; for statuses of policies."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._by_policy: dict[PolicyKey, dict[str, str]] = {}

    def changed(self, change: PolicyPodChanged) -> None:
        """Replace what is known of one pod."""
        before, after = _nominated(change.before), _nominated(change.after)
        if before == after:
            return
        if before:
            policy, name, _ = before
            pods = self._by_policy.get(policy, {})
            pods.pop(name, None)
            if not pods:
                self._by_policy.pop(policy, None)
        if after:
            policy, name, node = after
            self._by_policy.setdefault(policy, {})[name] = node
        self._publish(PolicyReportChanged())

    def part(self, decision: Decision) -> PolicyPart:
        """Return the part of a policy's status that names the pods which wait for a node that it refuses."""
        pods = self._by_policy.get(decision.policy.key, _NONE)
        if not pods or decision.policy.observed or not decision.dontschedule:
            return PolicyPart()
        refused = plain(decision.dontschedule)
        in_vain = {pod: node for pod, node in sorted(pods.items()) if node in refused}
        return PolicyPart(varying_problems=(_sentence(in_vain),) if in_vain else ())


def _nominated(pod: Pod | None) -> tuple[PolicyKey, str, str] | None:
    """Return the policy, the name and the nominated node of a pod for which the extender is called."""
    if pod is None or not pod.nominated_node or not pod.spec.requests_extender:
        return None
    policy = policy_of(pod)
    return (policy, pod.metadata.name, pod.nominated_node) if policy else None


def _sentence(in_vain: Mapping[str, str]) -> str:
    named = [f"{pod} to {node}" for pod, node in in_vain.items()][:_NAMED]
    more = f" and {len(in_vain) - _NAMED} more" if len(in_vain) > _NAMED else ""
    verb = "is" if len(in_vain) == 1 else "are"
    return (
        f"{counted(len(in_vain), 'pod')} {verb} nominated to a node that the policy refuses ({', '.join(named)}{more}): "
        "see whether kube-scheduler's configuration has preemptVerb (plimsoll configure-scheduler --check)"
    )
