"""kube-scheduler's filter, prioritize and preempt verbs, from the current decisions."""

from collections.abc import Iterator, Sequence

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.options import FeatureOptions
from evaluator.core.page_fields import PolicyFields
from evaluator.core.pages.part import PagePart
from evaluator.core.placement.explain import LearnedUse, learned_of
from evaluator.core.placement.placements import Placements
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.violations import violators
from evaluator.core.policy_status import Effect, Effects, listed
from evaluator.core.signals import PolicyPodChanged, on
from evaluator.core.wiring import Wired
from evaluator.features.extender.nominations import Nominations
from evaluator.features.extender.policies import ExtenderMetrics, PolicyVerbs


class RefusedNodes(Effects):
    """The nodes that a policy refuses to its pods."""

    def effects(self, decision: Decision, table: MetricTable) -> Iterator[Effect]:
        """Yield the effect of enforcing a policy now."""
        refused: Sequence[str] = ()
        if StrategyName.DONTSCHEDULE in decision.states:
            refused = table.nodes.names_at(violators(decision.dontschedule, table.nodes))
        phrase = f"refuse new pods on {listed(refused, len(table.nodes))}"
        yield Effect("nodesRefused", phrase, refused)


class PodsAddFields(PolicyFields):
    """What pods of a policy were seen to add to metrics."""

    pods_add: dict[str, LearnedUse]


class PodsAdd:
    """What pods of a policy were seen to add to metrics, for its page."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements

    def fields(self, decision: Decision) -> PodsAddFields | None:
        """Return the field, if something was learned."""
        learned = learned_of(self._placements, decision.policy.key)
        return PodsAddFields(pods_add=learned) if learned else None


def wire(core: Core, _options: FeatureOptions) -> Wired:
    """Answer on kube-scheduler's port."""
    metrics = ExtenderMetrics(core.metrics.registry)
    verbs = PolicyVerbs(
        core.loop.current,
        metrics,
        for_pod=core.contributions.for_pod,
        placements=core.placements,
        publish=core.signals.publish,
    )
    metrics.count(core.placements)
    page = PagePart(policy=PodsAdd(core.placements).fields)
    nominations = Nominations(core.signals.publish)
    return Wired(
        reacts=(on(PolicyPodChanged, nominations.changed),),
        scheduler_routes=[verbs.routes],
        effects=RefusedNodes(),
        policy_part=nominations.part,
        page=page,
    )


FEATURE = Feature(
    name="extender",
    options=FeatureOptions,
    metrics=ExtenderMetrics,
    wire=wire,
    pages=(PodsAddFields,),
)
