"""What a decision is for one pod, where rules of its policy depend on what the pod asks for.

Only these rules are evaluated, of all others the verdict stands; and only once for all pods that ask for the same, as
long as the decisions and the cluster are the same.
"""

from collections.abc import Mapping
from dataclasses import replace

from evaluator.model.names import PolicyKey
from evaluator.model.node_index import Floats, Mask
from evaluator.model.pod_demand import Amounts, PodView
from evaluator.policy import evaluate, scorer_metrics
from evaluator.policy import ranking as scheduleonmetric
from evaluator.policy.decide import Decision, Decisions
from evaluator.policy.evaluate import MetricColumn, MetricTable, Violations
from evaluator.policy.rule_options import WhenMissing
from evaluator.policy.scorer_metrics import Scoring
from evaluator.policy.types import StrategyName
from evaluator.policy.violations import ViolationReasons
from evaluator.scoring import derived
from evaluator.scoring.derived import QUANTITIES
from evaluator.scoring.snapshot import ClusterSnapshot

MOST_REMEMBERED = 64
"""Answers. Pods that come at once ask for the same or nearly so; each answer holds a reason for every node at most."""

_Asked = tuple[PolicyKey, frozenset[tuple[str, float]], str]


class PerPodDecisions:
    """Decisions for one pod each. One that was worked out is kept until there are other decisions, or another survey."""

    def __init__(self, scoring: Scoring) -> None:
        self._scorers = scoring.scorers
        self._survey = scoring.survey
        self._of: tuple[Decisions, ClusterSnapshot] | None = None
        self._known: dict[_Asked, Decision] = {}

    def decision(self, decision: Decision, decisions: Decisions, pod: PodView) -> Decision:
        """One of some decisions, as it is for a pod. Raises QuantityError where a scorer fails."""
        asked = decision.policy.podwise
        cluster = self._survey() if asked else None
        if cluster is None:
            return decision  # then the decision awaits its nodes, or has no such rule
        if self._of is None or self._of[0] is not decisions or self._of[1] is not cluster:
            self._of, self._known = (decisions, cluster), {}
        key = _asked(decision, pod)
        found = self._known.get(key)
        if found is None:
            values = derived.values(sorted(asked), self._scorers, cluster, pod)
            nodes = decisions.view.nodes
            placed = {name: scorer_metrics.over(v, cluster, nodes) for name, v in values.items()}
            if len(self._known) >= MOST_REMEMBERED:
                del self._known[next(iter(self._known))]
            found = self._known[key] = for_values(decision, decisions.view, placed)
        return found


def _asked(decision: Decision, pod: PodView) -> _Asked:
    kind = any(QUANTITIES[name].by_kind for name in decision.policy.podwise)
    return (
        decision.policy.key,
        _amounts(pod.requests),
        pod.kind if kind else "",
    )


def _amounts(amounts: Amounts) -> frozenset[tuple[str, float]]:
    """What is asked for, whether or not it says that of the rest nothing is."""
    return frozenset((name, amount) for name, amount in amounts.items() if amount)


def for_values(decision: Decision, view: MetricTable, values: Mapping[str, Floats]) -> Decision:
    """A decision where quantities have these values, over the nodes of its view; the others stay what they are there."""
    sights = {name: _sight(name, view, found) for name, found in values.items()}
    return replace(
        decision,
        dontschedule=_violation_reasons(decision, view, sights),
        ranking=_ranking(decision, view, sights),
    )


def _sight(name: str, view: MetricTable, values: Floats) -> MetricColumn:
    return MetricColumn(name, scorer_metrics.with_values(view.columns[name], values), view.nodes)


def _violation_reasons(
    decision: Decision, view: MetricTable, sights: Mapping[str, MetricColumn]
) -> Mapping[str, str]:
    strategy = decision.policy.strategies.get(StrategyName.DONTSCHEDULE)
    if strategy is None or all(rule.metric not in sights for rule in strategy.rules):
        return decision.dontschedule
    return ViolationReasons(
        decision.policy.key.name, strategy, view.nodes, _found(decision, view, sights)
    )


def _found(decision: Decision, view: MetricTable, sights: Mapping[str, MetricColumn]) -> Violations:
    """The standing of dontschedule with the verdicts of some rules put in its place."""
    standing = decision.states[StrategyName.DONTSCHEDULE]
    strategy = decision.policy.strategies[StrategyName.DONTSCHEDULE]
    stands = standing.found
    columns: list[tuple[Mask, Mask, Mask]] = []
    for number, rule in enumerate(strategy.rules):
        sight = sights.get(rule.metric)
        if sight is None:
            tables = (stands.broken, stands.missing, stands.carried)
            broken, missing, carried = (table[:, number] for table in tables)
            columns.append((broken, missing, carried))
        else:
            strict = rule.terms.when_missing is WhenMissing.VIOLATE
            lacks = sight.missing if strict else view.nodes.none
            columns.append((sight.broken(rule) | lacks, lacks, view.nodes.none))
    parts = (evaluate.table(part, view.nodes) for part in zip(*columns, strict=True))
    return evaluate.combined(strategy, *parts)


def _ranking(
    decision: Decision, view: MetricTable, sights: Mapping[str, MetricColumn]
) -> scheduleonmetric.Ranking | None:
    ranking = decision.ranking
    if ranking is None or (sight := sights.get(ranking.rule.metric)) is None:
        return ranking
    return scheduleonmetric.Ranking(ranking.rule, view.nodes, sight)
