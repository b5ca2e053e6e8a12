"""kube-scheduler's filter and prioritize verbs in a simulation, without HTTP."""

from collections.abc import Mapping, Sequence

from evaluator.core.placement.placements import Placements
from evaluator.core.policy.decide import Decisions
from evaluator.core.protocol import Args
from evaluator.features.extender.verbs import CountingVerbs
from lab.adapters.adapter import Adapter
from lab.interface import ExtenderVerbs


def simulated(placements: Placements) -> ExtenderVerbs:
    """Return the verbs that count these pods, placed since the readings."""
    verbs = CountingVerbs(placements)

    def rejected(args: Args, decisions: Decisions, now: float) -> Mapping[str, str]:
        return verbs.filter(args, decisions, now).failed

    def scores(args: Args, decisions: Decisions, now: float) -> Sequence[tuple[str, int]]:
        return verbs.prioritize(args, decisions, now).scores

    return ExtenderVerbs(rejected, scores)


ADAPTER = Adapter(verbs=simulated)
