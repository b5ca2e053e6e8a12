"""Everybody whom kube-scheduler asks about a pod, asked again for people who look: the scorers that are on, and the pod's policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.cache.pods import PodCache
from evaluator.cache.pods_by_policy import policy_of as policy_of_pod
from evaluator.model.node_index import NodeIndex
from evaluator.model.objects import Pod
from evaluator.model.pod_record import Key, PodRecord
from evaluator.policy.decide import Decision, Decisions
from evaluator.policy.per_pod import PerPodDecisions
from evaluator.scorerhost import explain
from evaluator.scorerhost.explain import Opinion
from evaluator.scorerhost.runner import ScorerRunner
from evaluator.scoring.options import POLICIES

PolicyOf = Callable[[PodRecord], tuple[Decision, NodeIndex] | None]
"""What the policy of a pod asks for, for this pod, and the nodes that this is of; None where it follows none."""


class PolicyLookup:
    """The policies that pods follow, as they decide for each of them. `pods` are those that follow one, living."""

    def __init__(
        self, pods: Mapping[Key, Pod], latest: Callable[[], Decisions], per_pod: PerPodDecisions
    ) -> None:
        self._pods = pods
        self._latest = latest
        self._per_pod = per_pod

    def of(self, resident: PodRecord) -> tuple[Decision, NodeIndex] | None:
        """What a pod's policy asks for, and of which nodes; None where it follows none that there is."""
        pod, decisions = self._pods.get(resident.key), self._latest()
        policy = policy_of_pod(pod) if pod else None
        decision = decisions.policies.get(policy) if policy else None
        if decision is None:
            return None
        found = self._per_pod.decision(decision, decisions, resident.view)
        return found, decisions.table.nodes


def no_policy(_resident: PodRecord) -> None:
    """Of a pod that follows none."""


@dataclass(frozen=True)
class PodExplainer:
    """Answers about pods that exist. `weights` are those of the extenders, where they are not 1."""

    runner: ScorerRunner
    inventory: PodCache
    weights: Mapping[str, int]
    policy_of: PolicyOf = no_policy

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before anybody can be asked."""
        return self.runner.waiting_for

    def find(self, name: str) -> PodRecord | None:
        """The pod called namespace/name."""
        namespace, _, rest = name.partition("/")
        key: Key = namespace, rest
        return self.inventory.pods.objects.get(key)

    def opinions(self, resident: PodRecord) -> Iterator[Opinion]:
        """What each says of all nodes, one after the other: each is some milliseconds of work. Raises ScorerError."""
        said = []
        for name, scorer in self.runner.scorers.items():
            cached = self.runner.look(name, resident.view)
            weight = self.weights.get(name, 1)
            said.append(
                explain.of_scorer(name, scorer, cached.view, cached.assessment, weight=weight)
            )
            yield said[-1]
        if (found := self.policy_of(resident)) is not None:
            weight = self.weights.get(POLICIES, 1)
            yield explain.of_policy(*found, said, weight=weight)
