"""Scorers: further extenders that rank nodes by overload risk, packing, congestion or outcomes, and their metrics in rules."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial

from evaluator.core import protocol
from evaluator.core.assembly import Core
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.feature import Feature
from evaluator.core.http.ports import Port
from evaluator.core.isolation import Part
from evaluator.core.loop.loop import DecisionParts
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import Key
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.protocol import Args
from evaluator.core.readings.merged import Readings
from evaluator.core.signals import LeadershipGained, PodChanged, Reaction, on, wakes
from evaluator.core.wiring import Loop, Wired
from evaluator.features.scorers import registry
from evaluator.features.scorers.derived import DERIVED_METRICS, OFF, ScorerMetrics, Scoring
from evaluator.features.scorers.learning import RewardController
from evaluator.features.scorers.page import (
    PAGES,
    ScoredNode,
    ScoredNodeFields,
    ScorerNameFields,
)
from evaluator.features.scorers.plugin import Scorer
from evaluator.features.scorers.plugins.reward import REWARD_CONFIG_MAP
from evaluator.features.scorers.pod_explainer import PerPodDecisions, PodExplainer, PolicyLookup
from evaluator.features.scorers.registry import ScorerOptions
from evaluator.features.scorers.rewards import Rewards
from evaluator.features.scorers.routes import ScorerRoutes
from evaluator.features.scorers.runner import ScorerRunner, ScoringMetrics
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
        part: Callable[[str], Part],
    ) -> None:
        self._options = options
        self.metrics_used = frozenset(
            metric for scorer in scorers.values() for metric in scorer.metrics
        )
        """Metrics that agents report for the scorers."""
        self._metrics = metrics
        self.inventory = inventory
        self._snapshotter = Snapshotter(
            cluster,
            self.inventory,
            readings,
            metrics=self.metrics_used,
            rewards=rewards,
            guard=part("snapshots of scorers"),
        )
        self._runner = ScorerRunner(
            scorers,
            self._snapshotter,
            metrics,
            demands=options.no_demands,
            part=part("scorers"),
        )
        self.scoring = Scoring(scorers, self._snapshotter.known, part("derived metrics"))
        """Derived metrics of the scorers, for rules of policies."""
        self._per_pod = PerPodDecisions(self.scoring)

    def reactions(self) -> tuple[Reaction, ...]:
        """Return what keeps the snapshot up to date."""
        return self._snapshotter.reactions()

    def missing(self) -> Sequence[str]:
        """Return what is missing before scorers can run."""
        return self._runner.waiting_for

    def for_pod(self, args: Args, decision: Decision, decisions: Decisions) -> Decision:
        """Return a policy's decision for one pod. Raises BadRequestError for a malformed pod."""
        return self._per_pod.decision(decision, decisions, protocol.pod_view(args))

    def pod_explainer(
        self, pods: Mapping[Key, Pod], latest: Callable[[], Decisions]
    ) -> PodExplainer:
        """Return the explainer for the operator's port; `pods`: the live pods with a policy."""
        weights = self._options.weights_of_scorers
        policies = PolicyLookup(pods, latest, self._per_pod)
        return PodExplainer(self._runner, self.inventory, weights, policies.decision_of)

    def routes(self) -> ScorerRoutes:
        """Return the routes of all scorers on the scheduler's port."""
        return ScorerRoutes(self._runner, self._metrics)

    def separate_routes(self) -> dict[str, ScorerRoutes]:
        """Return the routes of each port that serves a single scorer."""
        return {
            name: ScorerRoutes(self._runner, self._metrics, only=name)
            for name in self._options.ports_of_scorers
        }


class _Learned:
    """The values that the scorer `reward` learned; `controller`: None if it is not enabled."""

    def __init__(self, core: Core, options: ScorerOptions) -> None:
        self._nodes = core.cluster.nodes
        self._blank = Rewards()
        self.controller: RewardController | None = None
        if "reward" in options.enabled_scorers:
            self.controller = RewardController(
                core.api,
                options.no_rewards,
                self._known_nodes,
                namespace=core.namespace,
                name=REWARD_CONFIG_MAP,
                is_leader=core.fence.is_leader,
                part=core.isolation.part("rewards"),
            )

    def reactions(self) -> tuple[Reaction, ...]:
        """Return what the scorer learns from."""
        if self.controller is None:
            return ()
        return (
            *wakes(self.controller.start_over, LeadershipGained),
            on(PodChanged, self.controller.changed),
        )

    def current(self) -> Rewards:
        """Return the learned values."""
        return self.controller.rewards if self.controller else self._blank

    def _known_nodes(self) -> Set[str]:
        return self._nodes.objects.keys() if self._nodes.synced else set()


class _Shown:
    """What pages show of scorers."""

    def __init__(self, scorers: Mapping[str, Scorer], explainer: PodExplainer) -> None:
        self._scorers = scorers
        self._explainer = explainer

    def evaluator(self) -> ScorerNameFields:
        """Return the names of the enabled scorers."""
        return ScorerNameFields(scorers=[*self._scorers])

    def node(self, name: str) -> ScoredNodeFields:
        """Return what scorers know of a node."""
        return ScoredNodeFields(scorers=self._explainer.facts_of(name))


def _no_scorers() -> ScorerNameFields:
    return ScorerNameFields(scorers=[])


def _no_facts(_node: str) -> ScoredNodeFields:
    return ScoredNodeFields(scorers=ScoredNode())


NO_SCORERS = PagePart(evaluator=_no_scorers, node=_no_facts)
"""What pages show if no scorer is enabled."""


def wire(core: Core, options: ScorerOptions) -> Wired:
    """Load and serve the scorers of --scorers; without any, say in policies that use their metrics how to enable them."""
    metrics = ScoringMetrics(core.metrics.registry)
    scorers = registry.load(options)
    if not scorers:
        off = DecisionParts(layer=partial(ScorerMetrics, scoring=OFF))
        return Wired(decides=[off], page=NO_SCORERS)
    learned = _Learned(core, options)
    inventory = core.all_pods.require()
    host = ScorerHost(
        options,
        scorers,
        core.cluster,
        core.measured,
        metrics,
        inventory=inventory,
        rewards=learned.current,
        part=core.isolation.part,
    )
    parts = DecisionParts(
        layer=partial(ScorerMetrics, scoring=host.scoring), required=host.metrics_used
    )
    explainer = host.pod_explainer(core.cluster.pods.objects, lambda: core.loop.latest)
    shown = _Shown(scorers, explainer)
    loops: list[Loop] = [learned.controller.run] if learned.controller else []
    return Wired(
        reacts=(*learned.reactions(), *host.reactions()),
        decides=[parts],
        scheduler_routes=host.routes().groups(),
        ports=_ports(core, host, options),
        loops=loops,
        waiting_for=host.missing,
        for_pod=host.for_pod,
        page=PagePart(evaluator=shown.evaluator, node=shown.node, judge=explainer),
    )


def _ports(core: Core, host: ScorerHost, options: ScorerOptions) -> list[Port]:
    numbers = options.ports_of_scorers
    return [
        core.scheduler_port.opened(f"scorer-{name}", numbers[name], routes.groups())
        for name, routes in host.separate_routes().items()
    ]


def check(options: ScorerOptions) -> Iterator[str]:
    """Yield why the enabled scorers cannot be loaded."""
    try:
        registry.load(options)
    except registry.ScorersError as error:
        yield str(error)


FEATURE = Feature(
    name="scorers",
    options=ScorerOptions,
    metrics=ScoringMetrics,
    wire=wire,
    check=check,
    pages=PAGES,
    vocabulary=Vocabulary(derived=frozenset(DERIVED_METRICS)),
)
