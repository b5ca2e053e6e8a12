"""Explains a pod: runs the enabled scorers and the pod's policy for it again, for /explain."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from evaluator.core.cache.pods import PodCache
from evaluator.core.cache.policy_pods import policy_of as policy_of_pod
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import Key, PodRecord
from evaluator.core.pages import PageError, PodOpinions
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.features.scorers import explain
from evaluator.features.scorers.explain import Opinion
from evaluator.features.scorers.per_pod import PerPodDecisions
from evaluator.features.scorers.plugin import POLICIES
from evaluator.features.scorers.runner import ScorerError, ScorerRunner
from plimsoll.http.pieces import unhurried

PolicyOf = Callable[[PodRecord], tuple[Decision, NodeIndex] | None]
"""Returns the decision of a pod's policy for this pod, and its nodes; None for a pod without a policy."""


class PolicyLookup:
    """Finds the decision of a pod's policy, if the extender answers for it. `pods`: the living pods with a policy."""

    def __init__(
        self, pods: Mapping[Key, Pod], latest: Callable[[], Decisions], per_pod: PerPodDecisions
    ) -> None:
        self._pods = pods
        self._latest = latest
        self._per_pod = per_pod

    def of(self, record: PodRecord) -> tuple[Decision, NodeIndex] | None:
        """Return the decision for a pod, and its nodes.

        None if the pod has no policy, does not request the extender's resource, or the policy does not exist or is only
        observed.
        """
        pod, decisions = self._pods.get(record.key), self._latest()
        policy = policy_of_pod(pod) if pod and pod.spec.requests_extender else None
        decision = decisions.enforced.get(policy) if policy else None
        if decision is None:
            return None
        for_pod = self._per_pod.decision(decision, decisions, record.view)
        return for_pod, decisions.table.nodes


def no_policy(_pod: PodRecord) -> None:
    """Return None: no pod has a policy."""


@dataclass(frozen=True)
class PodExplainer:
    """Explains existing pods. `weights`: the extenders' weights that are not 1."""

    runner: ScorerRunner
    inventory: PodCache
    weights: Mapping[str, int]
    policy_of: PolicyOf = no_policy

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before scorers can run."""
        return self.runner.waiting_for

    async def opinions(self, pod: PodRecord) -> PodOpinions:
        """Return the scores of all extenders for a pod. Raises PageError."""
        try:
            explained = explain.explain(pod.view, await unhurried(self.judged(pod)))
        except ScorerError as failure:
            raise PageError(str(failure), HTTPStatus.INTERNAL_SERVER_ERROR) from failure
        return PodOpinions(explained.head, dict(await unhurried(explained.nodes)))

    def decision(self, pod: PodRecord) -> Decision | None:
        """Return the decision of the pod's policy for this pod; None if it has none."""
        decided = self.policy_of(pod)
        return decided[0] if decided else None

    def find(self, name: str) -> PodRecord | None:
        """Return the pod namespace/name, or None."""
        namespace, _, rest = name.partition("/")
        key: Key = namespace, rest
        return self.inventory.pods.objects.get(key)

    def facts_of(self, node: str) -> dict[str, Any]:
        """Return what scorers know of a node; empty while they are not ready."""
        if self.waiting_for or not self.runner.scorers:
            return {}
        return explain.node_facts(self.runner.view(next(iter(self.runner.scorers))), node)

    def judged(self, pod: PodRecord) -> Iterator[Opinion]:
        """Yield the opinion of each extender on all nodes; each takes some milliseconds. Raises ScorerError."""
        opinions = []
        for name, scorer in self.runner.scorers.items():
            cached = self.runner.run_uncached(name, pod.view)
            weight = self.weights.get(name, 1)
            opinions.append(
                explain.of_scorer(name, scorer, cached.view, cached.result, weight=weight)
            )
            yield opinions[-1]
        if (policy := self.policy_of(pod)) is not None:
            weight = self.weights.get(POLICIES, 1)
            yield explain.of_policy(*policy, opinions, weight=weight)
