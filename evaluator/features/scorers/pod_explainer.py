"""Decides a pod's policy for this pod, if its rules use per-pod metrics, and explains a pod for /explain.

Only rules on per-pod metrics are evaluated again, and once for all pods with equal requests while decisions and cluster
snapshot are the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from evaluator.core.cache.pods import PodCache
from evaluator.core.cache.policy_pods import policy_of as policy_of_pod
from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import Key, PodRecord
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Amounts
from evaluator.core.pages.part import PodOpinions
from evaluator.core.pages.section import PageError
from evaluator.core.policy import evaluate
from evaluator.core.policy import ranking as scheduleonmetric
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricColumn, MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import WhenMissing
from evaluator.core.policy.violations import ViolationReasons, Violations
from evaluator.features.scorers import derived, explain
from evaluator.features.scorers.derived import DERIVED_METRICS, Scoring
from evaluator.features.scorers.explain import Opinion
from evaluator.features.scorers.page import ScoredNode
from evaluator.features.scorers.plugin import POLICIES, ClusterSnapshot
from evaluator.features.scorers.runner import ScorerError, ScorerRunner
from plimsoll.http.pieces import unhurried

MOST_REMEMBERED = 64
"""Cached decisions. Pods of a burst have few different requests; each decision has up to one reason per node."""

_RequestKey = tuple[PolicyKey, frozenset[tuple[str, float]], str]


class PerPodDecisions:
    """Decisions per pod, cached until the decisions or the cluster snapshot change."""

    def __init__(self, scoring: Scoring) -> None:
        self._scorers = scoring.scorers
        self._guard = scoring.guard
        self._snapshot = scoring.snapshot
        self._of: tuple[Decisions, ClusterSnapshot] | None = None
        self._known: dict[_RequestKey, Decision] = {}

    def decision(self, decision: Decision, decisions: Decisions, pod: PodView) -> Decision:
        """Return a policy's decision for one pod. Raises DerivedMetricError if a scorer fails."""
        metrics = decision.policy.per_pod_metrics
        cluster = self._snapshot() if metrics else None
        if cluster is None:
            return decision  # the decision's nodes are pending, or it has no such rule
        if self._of is None or self._of[0] is not decisions or self._of[1] is not cluster:
            self._of, self._known = (decisions, cluster), {}
        key = _request_key(decision, pod)
        evaluated = self._known.get(key)
        if evaluated is None:
            values = derived.values(sorted(metrics), self._scorers, cluster, pod, self._guard)
            nodes = decisions.table.nodes
            over_nodes = {name: derived.over(v, cluster, nodes) for name, v in values.items()}
            if len(self._known) >= MOST_REMEMBERED:
                del self._known[next(iter(self._known))]
            evaluated = self._known[key] = for_values(decision, decisions.table, over_nodes)
        return evaluated


def _request_key(decision: Decision, pod: PodView) -> _RequestKey:
    kind = any(DERIVED_METRICS[name].by_kind for name in decision.policy.per_pod_metrics)
    return (
        decision.policy.key,
        _amounts(pod.requests),
        pod.kind if kind else "",
    )


def _amounts(amounts: Amounts) -> frozenset[tuple[str, float]]:
    """Return the requested amounts; zero and absent amounts are equal."""
    return frozenset((name, amount) for name, amount in amounts.items() if amount)


def for_values(decision: Decision, table: MetricTable, values: Mapping[str, Floats]) -> Decision:
    """Return a decision with these values of per-pod metrics, over the table's nodes; other rules keep their results."""
    columns = {name: _prepared(name, table, numbers) for name, numbers in values.items()}
    return replace(
        decision,
        violations={
            **decision.violations,
            StrategyName.DONTSCHEDULE: _violation_reasons(decision, table, columns),
        },
        ranking=_ranking(decision, table, columns),
    )


def _prepared(name: str, table: MetricTable, values: Floats) -> MetricColumn:
    return MetricColumn(name, derived.with_values(table.columns[name], values), table.nodes)


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
    """Return the result of dontschedule with the rules on `columns` evaluated again."""
    state = decision.states[StrategyName.DONTSCHEDULE]
    strategy = decision.policy.strategies[StrategyName.DONTSCHEDULE]
    previous = state.found
    results: list[tuple[Mask, Mask, Mask]] = []
    for number, rule in enumerate(strategy.rules):
        column = columns.get(rule.metric)
        if column is None:
            tables = (previous.per_rule, previous.missing, previous.from_previous_leader)
            per_rule, missing, from_label = (table[:, number] for table in tables)
            results.append((per_rule, missing, from_label))
        else:
            strict = rule.options.when_missing is WhenMissing.VIOLATE
            by_missing = column.missing if strict else table.nodes.none
            results.append((column.matches(rule) | by_missing, by_missing, table.nodes.none))
    parts = (evaluate.stack_rules(part, table.nodes) for part in zip(*results, strict=True))
    return evaluate.combine(strategy, *parts)


def _ranking(
    decision: Decision, table: MetricTable, columns: Mapping[str, MetricColumn]
) -> scheduleonmetric.Ranking | None:
    ranking = decision.ranking
    if ranking is None or (column := columns.get(ranking.rule.metric)) is None:
        return ranking
    return scheduleonmetric.Ranking(ranking.rule, table.nodes, column, ranking.by)


PolicyOf = Callable[[PodRecord], tuple[Decision, NodeIndex] | None]
"""Returns the decision of a pod's policy for this pod, and its nodes; None for a pod without a policy."""


class PolicyLookup:
    """Finds the decision of a pod's policy, if the extender answers for it. `pods`: the living pods with a policy."""

    def __init__(
        self, pods: Mapping[Key, Pod], latest: Callable[[], Decisions], per_pod: PerPodDecisions
    ) -> None:
        self._pods = pods
        self._latest = latest
        self._per_pod = per_pod

    def decision_of(self, record: PodRecord) -> tuple[Decision, NodeIndex] | None:
        """Return the decision for a pod, and its nodes.

        None if the pod has no policy, does not request the extender's resource, or the policy does not exist or is only
        observed.
        """
        pod, decisions = self._pods.get(record.key), self._latest()
        policy = policy_of_pod(pod) if pod and pod.spec.requests_extender else None
        decision = decisions.enforced.get(policy) if policy else None
        if decision is None:
            return None
        for_pod = self._per_pod.decision(decision, decisions, record.view)
        return for_pod, decisions.table.nodes


def no_policy(_pod: PodRecord) -> None:
    """Return None: no pod has a policy."""


@dataclass(frozen=True)
class PodExplainer:
    """Explains existing pods. `weights`: the extenders' weights that are not 1."""

    runner: ScorerRunner
    inventory: PodCache
    weights: Mapping[str, int]
    policy_of: PolicyOf = no_policy

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before scorers can run."""
        return self.runner.waiting_for

    async def opinions(self, pod: PodRecord) -> PodOpinions:
        """Return the scores of all extenders for a pod. Raises PageError."""
        try:
            explained = explain.explain(pod.view, await unhurried(self.judged(pod)))
        except ScorerError as failure:
            raise PageError(str(failure), HTTPStatus.INTERNAL_SERVER_ERROR) from failure
        nodes = dict(await unhurried(explained.nodes))
        return PodOpinions(explained.head, nodes, explain.refusal_reasons(nodes.values()))

    def decision(self, pod: PodRecord) -> Decision | None:
        """Return the decision of the pod's policy for this pod; None if it has none."""
        decided = self.policy_of(pod)
        return decided[0] if decided else None

    def find(self, name: str) -> PodRecord | None:
        """Return the pod namespace/name, or None."""
        namespace, _, rest = name.partition("/")
        key: Key = namespace, rest
        return self.inventory.pods.objects.get(key)

    def facts_of(self, node: str) -> ScoredNode:
        """Return what scorers know of a node; empty while they are not ready."""
        if self.waiting_for or not self.runner.scorers:
            return ScoredNode()
        return explain.node_facts(self.runner.view(next(iter(self.runner.scorers))), node)

    def judged(self, pod: PodRecord) -> Iterator[Opinion]:
        """Yield the opinion of each extender on all nodes; each takes some milliseconds. Raises ScorerError."""
        opinions = []
        for name, scorer in self.runner.scorers.items():
            cached = self.runner.run_uncached(name, pod.view)
            weight = self.weights.get(name, 1)
            opinions.append(
                explain.of_scorer(name, scorer, cached.view, cached.result, weight=weight)
            )
            yield opinions[-1]
        if (policy := self.policy_of(pod)) is not None:
            weight = self.weights.get(POLICIES, 1)
            yield explain.of_policy(*policy, opinions, weight=weight)
