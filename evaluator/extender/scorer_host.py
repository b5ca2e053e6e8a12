"""The scorers put together with what they look at, and with who is answered by them. Without scorers it does nothing."""

import time
from collections.abc import Callable, Mapping

from evaluator.cache.cluster import ClusterCache
from evaluator.cache.pods import PodCache
from evaluator.extender import podview
from evaluator.extender.codec import Args
from evaluator.extender.scorers import ScorerRoutes
from evaluator.metrics import Metrics
from evaluator.model.objects import Pod
from evaluator.model.pod_record import Key
from evaluator.policy.decide import Decision, Decisions
from evaluator.policy.per_pod import PerPodDecisions
from evaluator.policy.scorer_metrics import Scoring
from evaluator.readings.merged import Readings
from evaluator.scorerhost.pod_explainer import PodExplainer, PolicyLookup
from evaluator.scorerhost.runner import ScorerRunner
from evaluator.scorerhost.snapshotter import Snapshotter
from evaluator.scoring.options import ScorerOptions
from evaluator.scoring.plugin import Scorer
from evaluator.scoring.rewards import Rewards


class ScorerHost:
    """The scorers that are on; while there are none, there are no routes and no panel, and no pods are watched."""

    def __init__(
        self,
        options: ScorerOptions,
        scorers: Mapping[str, Scorer],
        cluster: ClusterCache,
        readings: Readings,
        metrics: Metrics,
        *,
        rewards: Callable[[], Rewards],
    ) -> None:
        self._options = options
        self.on = bool(scorers)
        """Whether there are any, so that the inventory is to be fed."""
        self.taken = frozenset(metric for one in scorers.values() for metric in one.metrics)
        """The metrics that agents are asked for on behalf of scorers."""
        self._metrics = metrics
        self.inventory = PodCache(clock=time.monotonic, wall=time.time)
        """To be fed with all pods."""
        self._snapshotter = Snapshotter(
            cluster, self.inventory, readings, metrics=self.taken, rewards=rewards
        )
        self._runner = ScorerRunner(
            scorers,
            self._snapshotter,
            metrics,
            demands=options.no_demands,
        )
        self.scoring = Scoring(scorers, self._snapshotter.known)
        """For rules of policies that name what scorers work out."""
        self._per_pod = PerPodDecisions(self.scoring)

    def for_pod(self, args: Args, decision: Decision, decisions: Decisions) -> Decision:
        """A policy's decision as it is for one pod. Raises BadRequestError for a pod that cannot be read."""
        return self._per_pod.decision(decision, decisions, podview.view(args))

    def pod_explainer(
        self, pods: Mapping[Key, Pod], latest: Callable[[], Decisions]
    ) -> PodExplainer | None:
        """What the operator's port answers about pods. `pods` are those that follow a policy, living."""
        if not self.on:
            return None
        weights = self._options.weights_of_scorers
        policies = PolicyLookup(pods, latest, self._per_pod)
        return PodExplainer(self._runner, self.inventory, weights, policies.of)

    def routes(self) -> ScorerRoutes | None:
        """What the scheduler's port answers for all of them."""
        return ScorerRoutes(self._runner, self._metrics) if self.on else None

    def apart(self) -> dict[str, ScorerRoutes]:
        """What the ports answer that are one scorer's alone."""
        return {
            name: ScorerRoutes(self._runner, self._metrics, only=name)
            for name in self._options.ports_of_scorers
        }
