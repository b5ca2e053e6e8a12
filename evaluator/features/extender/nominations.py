"""Pods for which kube-scheduler made room on a node that their policy refuses: it does so without the preempt verb."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

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
_REMEMBERED = 60.0
"""Seconds after its end in which a nomination counts if it is repeated."""


@dataclass(slots=True)
class _Nomination:
    """The nomination of a pod. `until`: when one that ended is forgotten (seconds of the clock); None while it lasts.

    kube-scheduler deletes a pod on the node, finds that the node is refused, and takes the nomination back, several times
    a second. So one that was repeated counts until it is forgotten.
    """

    node: str
    times: int = 1
    until: float | None = None

    def counts(self, now: float) -> bool:
        """Return whether the pod is nominated, or is again and again."""
        return self.until is None or (self.times > 1 and now < self.until)


class Nominations:
    """The nominated nodes of waiting pods, by policy and pod; for statuses of policies."""

    def __init__(self, publish: Publish, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._publish = publish
        self._clock = clock
        self._by_policy: dict[PolicyKey, dict[str, _Nomination]] = {}

    def changed(self, change: PolicyPodChanged) -> None:
        """Replace what is known of one pod."""
        before, after = _nominated(change.before), _nominated(change.after)
        if before == after:
            return
        if before is not None:
            self._end(before, after)
        if after is not None and after.node:
            self._begin(after)
        if (before and before.node) or (after and after.node):
            self._publish(PolicyReportChanged())

    def _begin(self, pod: "_Waiting") -> None:
        pods = self._by_policy.setdefault(pod.policy, {})
        known, now = pods.get(pod.name), self._clock()
        repeated = known is not None and known.node == pod.node and now < (known.until or 0.0)
        pods[pod.name] = _Nomination(pod.node, known.times + 1 if known and repeated else 1)

    def _end(self, before: "_Waiting", after: "_Waiting | None") -> None:
        """End a nomination; it is remembered while the pod waits, and for the same policy."""
        pods = self._by_policy.get(before.policy, {})
        known = pods.get(before.name)
        if known is not None and after is not None and after.policy == before.policy:
            known.until = self._clock() + _REMEMBERED if known.until is None else known.until
        else:
            pods.pop(before.name, None)
            if not pods:
                self._by_policy.pop(before.policy, None)

    def part(self, decision: Decision) -> PolicyPart:
        """Return the part of a policy's status that names the pods which wait for a node that it refuses."""
        pods = self._by_policy.get(decision.policy.key)
        if not pods or decision.policy.observed or not decision.dontschedule:
            return PolicyPart()
        refused, now = plain(decision.dontschedule), self._clock()
        in_vain = {
            name: nomination.node
            for name, nomination in sorted(pods.items())
            if nomination.node in refused and nomination.counts(now)
        }
        return PolicyPart(varying_problems=(_sentence(in_vain),) if in_vain else ())


class _Waiting(NamedTuple):
    """A waiting pod for which the extender is called. `node`: the nominated one, or empty."""

    policy: PolicyKey
    name: str
    node: str


def _nominated(pod: Pod | None) -> _Waiting | None:
    """Return a pod for which the extender is called; None for any other."""
    if pod is None or not pod.waiting or not pod.spec.requests_extender:
        return None
    policy = policy_of(pod)
    return _Waiting(policy, pod.metadata.name, pod.nominated_node) if policy else None


def _sentence(in_vain: Mapping[str, str]) -> str:
    named = [f"{pod} to {node}" for pod, node in in_vain.items()][:_NAMED]
    more = f" and {len(in_vain) - _NAMED} more" if len(in_vain) > _NAMED else ""
    verb = "is" if len(in_vain) == 1 else "are"
    return (
        f"{counted(len(in_vain), 'pod')} {verb} nominated to a node that the policy refuses ({', '.join(named)}{more}): "
        "see whether kube-scheduler's configuration has preemptVerb (plimsoll configure-scheduler --check)"
    )
