"""The scorers put together with what they look at, and with who is answered by them. Made only where there are scorers."""

from collections.abc import Mapping, Sequence

from evaluator.assessor import Assessor
from evaluator.cluster import Cluster
from evaluator.decisions import Decision, Decisions
from evaluator.extender import pods
from evaluator.extender.messages import Args
from evaluator.extender.scoring import ScorerRoutes
from evaluator.metrics import Metrics
from evaluator.nodes import Nodes
from evaluator.podwise import Podwise
from evaluator.quantified import Scoring
from evaluator.scoring.options import ScorerOptions
from evaluator.scoring.protocol import Scorer
from evaluator.scoring.view import ClusterView


class ScorerHost:
    """The scorers that are on."""

    def __init__(
        self,
        options: ScorerOptions,
        scorers: Mapping[str, Scorer],
        cluster: Cluster,
        metrics: Metrics,
    ) -> None:
        self._options = options
        self.taken = frozenset(metric for one in scorers.values() for metric in one.metrics)
        """The metrics that agents are asked for on behalf of scorers."""
        self._metrics = metrics
        self._survey = _Names(cluster)
        self._assessor = Assessor(
            scorers,
            self._survey,
            metrics,
            demands=options.no_demands,
        )
        self.scoring = Scoring(scorers, self._known)
        """For rules of policies that name what scorers work out."""
        self._podwise = Podwise(self.scoring)

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before scorers may be asked."""
        return self._assessor.waiting_for

    def for_pod(self, args: Args, decision: Decision, decisions: Decisions) -> Decision:
        """A policy's decision as it is for one pod. Raises BadRequestError for a pod that cannot be read."""
        return self._podwise.decision(decision, decisions, pods.view(args))

    def _known(self) -> ClusterView | None:
        return None if self._survey.waiting_for else self._survey.view()

    def routes(self) -> ScorerRoutes:
        """What the scheduler's port answers for all of them."""
        return ScorerRoutes(self._assessor, self._metrics)

    def apart(self) -> dict[str, ScorerRoutes]:
        """What the ports answer that are one scorer's alone."""
        return {
            name: ScorerRoutes(self._assessor, self._metrics, only=name)
            for name in self._options.ports_of_scorers
        }


class _Names:
    """The nodes' names alone."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._view = ClusterView(Nodes())

    @property
    def waiting_for(self) -> Sequence[str]:
        return self._cluster.waiting_for

    def view(self) -> ClusterView:
        nodes = Nodes(self._cluster.nodes.objects)
        if nodes != self._view.nodes:
            self._view = ClusterView(nodes)
        return self._view
