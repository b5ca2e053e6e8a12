"""Scorers: further extenders that rank nodes by overload risk, packing, congestion or outcomes, and their metrics in rules."""

from collections.abc import Iterator, Mapping, Set
from functools import partial

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.http.ports import Port
from evaluator.core.pages import PagePart
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.report import Facts
from evaluator.core.wiring import Loop, Wired
from evaluator.features.scorers import registry
from evaluator.features.scorers.derived import DERIVED_METRICS
from evaluator.features.scorers.derived_readings import OFF, ScorerMetrics
from evaluator.features.scorers.host import ScorerHost
from evaluator.features.scorers.learning.controller import RewardController
from evaluator.features.scorers.learning.rewards import Rewards
from evaluator.features.scorers.metrics import ScoringMetrics
from evaluator.features.scorers.options import ScorerOptions
from evaluator.features.scorers.plugin import Scorer
from evaluator.features.scorers.plugins.reward import REWARD_CONFIG_MAP
from evaluator.features.scorers.pod_explainer import PodExplainer


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
            )
            core.fence.listeners.append(self.controller.start_over)

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

    def evaluator(self) -> Facts:
        """Return the names of the enabled scorers."""
        return {"scorers": [*self._scorers]}

    def node(self, name: str) -> Facts:
        """Return what scorers know of a node."""
        return {"scorers": self._explainer.facts_of(name)}


def _no_scorers() -> Facts:
    return {"scorers": []}


def _no_facts(_node: str) -> Facts:
    return {"scorers": {}}


NO_SCORERS = PagePart(evaluator=_no_scorers, node=_no_facts)
"""What pages show if no scorer is enabled."""


def wire(core: Core, options: ScorerOptions) -> Wired:
    """Load and serve the scorers of --scorers; without any, say in policies that use their metrics how to enable them."""
    metrics = ScoringMetrics(core.metrics.registry)
    scorers = registry.load(options)
    if not scorers:
        core.loop.derive(partial(ScorerMetrics, scoring=OFF))
        return Wired(page=NO_SCORERS)
    learned = _Learned(core, options)
    inventory = core.all_pods.require()
    if learned.controller:
        inventory.listeners.append(learned.controller.changed)
    host = ScorerHost(
        options,
        scorers,
        core.cluster,
        core.measured,
        metrics,
        inventory=inventory,
        rewards=learned.current,
    )
    core.loop.derive(partial(ScorerMetrics, scoring=host.scoring))
    core.loop.required |= host.metrics_used
    explainer = host.pod_explainer(core.cluster.pods.objects, core.loop.newest)
    shown = _Shown(scorers, explainer)
    loops: list[Loop] = [learned.controller.run] if learned.controller else []
    return Wired(
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
    vocabulary=Vocabulary(derived=frozenset(DERIVED_METRICS)),
)
