"""Wires the scorers to their inputs and routes; does nothing without scorers."""

from collections.abc import Callable, Mapping, Sequence

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import Key
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.protocol import podview
from evaluator.core.protocol.codec import Args
from evaluator.core.readings.merged import Readings
from evaluator.features.scorers.derived_readings import Scoring
from evaluator.features.scorers.learning.rewards import Rewards
from evaluator.features.scorers.metrics import ScoringMetrics
from evaluator.features.scorers.options import ScorerOptions
from evaluator.features.scorers.per_pod import PerPodDecisions
from evaluator.features.scorers.plugin import Scorer
from evaluator.features.scorers.pod_explainer import PodExplainer, PolicyLookup
from evaluator.features.scorers.routes import ScorerRoutes
from evaluator.features.scorers.runner import ScorerRunner
from evaluator.features.scorers.snapshotter import Snapshotter


class ScorerHost:
    """The enabled scorers. `inventory`: the cache of all pods."""

    def __init__(
        self,
        options: ScorerOptions,
        scorers: Mapping[str, Scorer],
        cluster: ClusterCache,
        readings: Readings,
        metrics: ScoringMetrics,
        *,
        inventory: PodCache,
        rewards: Callable[[], Rewards],
    ) -> None:
        self._options = options
        self.metrics_used = frozenset(metric for one in scorers.values() for metric in one.metrics)
        """Metrics that agents report for the scorers."""
        self._metrics = metrics
        self.inventory = inventory
        self._snapshotter = Snapshotter(
            cluster, self.inventory, readings, metrics=self.metrics_used, rewards=rewards
        )
        self._runner = ScorerRunner(
            scorers,
            self._snapshotter,
            metrics,
            demands=options.no_demands,
        )
        self.scoring = Scoring(scorers, self._snapshotter.known)
        """Derived metrics of the scorers, for rules of policies."""
        self._per_pod = PerPodDecisions(self.scoring)

    def missing(self) -> Sequence[str]:
        """Return what is missing before scorers can run."""
        return self._runner.waiting_for

    def for_pod(self, args: Args, decision: Decision, decisions: Decisions) -> Decision:
        """Return a policy's decision for one pod. Raises BadRequestError for a malformed pod."""
        return self._per_pod.decision(decision, decisions, podview.view(args))

    def pod_explainer(
        self, pods: Mapping[Key, Pod], latest: Callable[[], Decisions]
    ) -> PodExplainer:
        """Return the explainer for the operator's port; `pods`: the live pods with a policy."""
        weights = self._options.weights_of_scorers
        policies = PolicyLookup(pods, latest, self._per_pod)
        return PodExplainer(self._runner, self.inventory, weights, policies.of)

    def routes(self) -> ScorerRoutes:
        """Return the routes of all scorers on the scheduler's port."""
        return ScorerRoutes(self._runner, self._metrics)

    def separate_routes(self) -> dict[str, ScorerRoutes]:
        """Return the routes of each port that serves a single scorer."""
        return {
            name: ScorerRoutes(self._runner, self._metrics, only=name)
            for name in self._options.ports_of_scorers
        }
