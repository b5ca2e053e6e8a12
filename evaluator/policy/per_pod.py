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
from evaluator.scoring.derived import DERIVED_METRICS
from evaluator.scoring.snapshot import ClusterSnapshot

MOST_REMEMBERED = 64
"""Answers. Pods that come at once ask for the same or nearly so; each answer holds a reason for every node at most."""

_Asked = tuple[PolicyKey, frozenset[tuple[str, float]], str]


class PerPodDecisions:
    """Decisions for one pod each. One that was worked out is kept until there are other decisions, or another survey."""

    def __init__(self, scoring: Scoring) -> None:
        self._scorers = scoring.scorers
        self._snapshot = scoring.snapshot
        self._of: tuple[Decisions, ClusterSnapshot] | None = None
        self._known: dict[_Asked, Decision] = {}

    def decision(self, decision: Decision, decisions: Decisions, pod: PodView) -> Decision:
        """One of some decisions, as it is for a pod. Raises QuantityError where a scorer fails."""
        asked = decision.policy.per_pod_metrics
        cluster = self._snapshot() if asked else None
        if cluster is None:
            return decision  # then the decision awaits its nodes, or has no such rule
        if self._of is None or self._of[0] is not decisions or self._of[1] is not cluster:
            self._of, self._known = (decisions, cluster), {}
        key = _asked(decision, pod)
        found = self._known.get(key)
        if found is None:
            values = derived.values(sorted(asked), self._scorers, cluster, pod)
            nodes = decisions.table.nodes
            placed = {name: scorer_metrics.over(v, cluster, nodes) for name, v in values.items()}
            if len(self._known) >= MOST_REMEMBERED:
                del self._known[next(iter(self._known))]
            found = self._known[key] = for_values(decision, decisions.table, placed)
        return found


def _asked(decision: Decision, pod: PodView) -> _Asked:
    kind = any(DERIVED_METRICS[name].by_kind for name in decision.policy.per_pod_metrics)
    return (
        decision.policy.key,
        _amounts(pod.requests),
        pod.kind if kind else "",
    )


def _amounts(amounts: Amounts) -> frozenset[tuple[str, float]]:
    """What is asked for, whether or not it says that of the rest nothing is."""
    return frozenset((name, amount) for name, amount in amounts.items() if amount)


def for_values(decision: Decision, table: MetricTable, values: Mapping[str, Floats]) -> Decision:
    """A decision where quantities have these values, over the nodes of its view; the others stay what they are there."""
    columns = {name: _prepared(name, table, found) for name, found in values.items()}
    return replace(
        decision,
        dontschedule=_violation_reasons(decision, table, columns),
        ranking=_ranking(decision, table, columns),
    )


def _prepared(name: str, table: MetricTable, values: Floats) -> MetricColumn:
    return MetricColumn(name, scorer_metrics.with_values(table.columns[name], values), table.nodes)


def _violation_reasons(
    decision: Decision, table: MetricTable, columns: Mapping[str, MetricColumn]
) -> Mapping[str, str]:
    strategy = decision.policy.strategies.get(StrategyName.DONTSCHEDULE)
    if strategy is None or all(rule.metric not in columns for rule in strategy.rules):
        return decision.dontschedule
    return ViolationReasons(
        decision.policy.key.name, strategy, table.nodes, _found(decision, table, columns)
    )


def _found(
    decision: Decision, table: MetricTable, columns: Mapping[str, MetricColumn]
) -> Violations:
    """The standing of dontschedule with the verdicts of some rules put in its place."""
    state = decision.states[StrategyName.DONTSCHEDULE]
    strategy = decision.policy.strategies[StrategyName.DONTSCHEDULE]
    stands = state.found
    results: list[tuple[Mask, Mask, Mask]] = []
    for number, rule in enumerate(strategy.rules):
        column = columns.get(rule.metric)
        if column is None:
            tables = (stands.per_rule, stands.missing, stands.from_previous_leader)
            per_rule, missing, carried = (table[:, number] for table in tables)
            results.append((per_rule, missing, carried))
        else:
            strict = rule.options.when_missing is WhenMissing.VIOLATE
            lacks = column.missing if strict else table.nodes.none
            results.append((column.matches(rule) | lacks, lacks, table.nodes.none))
    parts = (evaluate.stack_rules(part, table.nodes) for part in zip(*results, strict=True))
    return evaluate.combine(strategy, *parts)


def _ranking(
    decision: Decision, table: MetricTable, columns: Mapping[str, MetricColumn]
) -> scheduleonmetric.Ranking | None:
    ranking = decision.ranking
    if ranking is None or (column := columns.get(ranking.rule.metric)) is None:
        return ranking
    return scheduleonmetric.Ranking(ranking.rule, table.nodes, column)
