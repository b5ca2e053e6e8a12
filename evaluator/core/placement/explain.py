"""What placed pods add to readings, as fields of pages and in words."""

from collections.abc import Iterator
from dataclasses import replace

from evaluator.core.model.names import PolicyKey
from evaluator.core.page_fields import Fields
from evaluator.core.placement.measures import Measures, shown
from evaluator.core.placement.placements import Counted, Placements
from evaluator.core.policy.strategies import StrategyName
from plimsoll.text import counted


class PlacedPods(Fields):
    """What pods placed since a reading add to a metric of a node."""

    metric: str
    pods: float
    counted: float
    text: str


class LearnedUse(Fields):
    """What a pod of a policy was seen to add to a metric: the median of some trials."""

    per_pod: float
    trials: int
    text: str


def placed_on(measures: Measures, found: Counted, node: int) -> Iterator[PlacedPods]:
    """Yield what counts on the node at a position, by metric: `pods`, `counted` and both as a sentence."""
    ranking = found.decision.ranking
    for metric, added in found.added.items():
        pods = float(added.placed[node])
        if not pods:
            continue
        ranks = ranking is not None and ranking.rule.metric == metric
        amount = float((added.ranking if ranks else added.unbiased)[node])
        measure, noun = measures.measure_of(metric), "pod" if pods == 1 else "pods"
        text, exact = shown(amount, measure), shown(float(added.unbiased[node]), measure)
        if exact != text and metric in _filtered(found):
            text += f" in the ranking and {exact} in dontschedule"
        sentence = f"{pods:g} {noun} placed since this reading, counted as {text}"
        yield PlacedPods(metric=metric, pods=pods, counted=amount, text=sentence)


def _filtered(found: Counted) -> frozenset[str]:
    strategy = found.decision.policy.strategies.get(StrategyName.DONTSCHEDULE)
    return frozenset(rule.metric for rule in strategy.rules) if strategy else frozenset()


def learned_of(placements: Placements, policy: PolicyKey) -> dict[str, LearnedUse]:
    """Return what pods of a policy were seen to add, by metric, with a sentence."""
    found = {}
    for (key, metric), added in placements.learned.all().items():
        if key == policy:
            amount = shown(
                added.per_pod, replace(placements.measures.measure_of(metric), share=False)
            )
            trials = counted(added.trials, "trial")
            text = f"a pod adds {amount}: the median of {trials}"
            found[metric] = LearnedUse(per_pod=added.per_pod, trials=added.trials, text=text)
    return found
