"""Decisions that include the pods placed since the readings: what the extender answers and /explain shows.

If the readings include all pods, the decision is the same object as without: answers are Telemetry Aware Scheduling's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, Positions, fixed
from evaluator.core.model.resources import RESOURCES
from evaluator.core.model.resources import Allocatable as NodeAllocatable
from evaluator.core.placement.estimates import (
    Additions,
    Capacity,
    MetricReadings,
    Size,
    additions,
    worse,
)
from evaluator.core.placement.learned import Learned, NodeReading
from evaluator.core.placement.ledger import Ledger, PlacedPod, Weighed
from evaluator.core.placement.measures import LONGEST_WINDOW, SHORTEST_WINDOW, Load, Measures
from evaluator.core.policy import evaluate
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricColumn, MetricTable, combine
from evaluator.core.policy.ranking import Ranking
from evaluator.core.policy.strategies import COMPLIANCE, PER_POD, StrategyName
from evaluator.core.policy.types import Operator, Policy, RankBy, Rule
from evaluator.core.policy.violations import ViolationReasons, Violations

SLACK = 60.0
"""Seconds beyond the longest window and the age of a usable reading for which a pod is kept."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A policy's decision with the pods that its readings do not include, and by metric what was added; none without pods."""

    decision: Decision
    added: Mapping[str, Additions]


_Version = tuple[Decision, int, int]
"""What a counted decision was made from: the decision, and the versions of the ledger and of what was learned."""


class Placements:
    """The pods placed lately, and the decisions that include them. Times are seconds of the clock of the readings."""

    def __init__(
        self,
        measures: Measures,
        allocatable: Callable[[str], NodeAllocatable | None],
        *,
        stale_after: float,
        enabled: bool = True,
    ) -> None:
        """`enabled`: whether pods count at all."""
        self.enabled = enabled
        self.ledger = Ledger()
        self.departed = Ledger()
        """Pods that left a node lately, after its readings included them."""
        self.learned = Learned()
        self.measures = measures
        self._capacity = Capacity(allocatable)
        self._stale_after = stale_after
        self._decisions = Decisions()
        self._sizes: dict[str, Size] = {}
        self._metrics: Mapping[str, frozenset[str]] = {}
        """The metrics that rank or filter nodes for pods of a namespace."""
        self._horizon = LONGEST_WINDOW + stale_after + SLACK
        self._counted: dict[PolicyKey, tuple[_Version, Counted]] = {}

    def capacity_changed(self, _node: str) -> None:
        """A node's allocatable amounts changed."""
        self._capacity.changed()
        self._counted.clear()

    def bound(self, pod: PlacedPod, node: str, at: float, now: float) -> None:
        """A pod was bound to a node at `at`, as is known since `now`."""
        if now - at < self._horizon:
            self.ledger.bind(pod, node, at, now=now)
        for metric in self._metrics.get(pod.policy.namespace, ()) if at == now else ():
            requested = self._requested(pod, metric)
            self.learned.bound(pod.policy, node, metric, requested, self._read(metric, node), now)

    def gone(self, pod: PlacedPod, node: str, now: float) -> None:
        """A bound pod finished, is being deleted, or is gone."""
        bound = self.ledger.bound_at(pod.uid)
        self.ledger.remove(pod.uid)
        if bound is None or now - bound > SHORTEST_WINDOW:
            self.departed.bind(pod, node, now)
        self.learned.left(node, self._metrics.get(pod.policy.namespace, ()))

    def asked(self, uid: str) -> None:
        """Kube-scheduler sent a request for a pod; if an earlier answer is unconfirmed, that attempt failed."""
        self.ledger.withdraw(uid)

    def answered(self, pod: PlacedPod, nodes: Sequence[str], now: float) -> None:
        """Kube-scheduler was answered that these nodes are the best ones, equally."""
        if self.enabled:
            self.ledger.answer(pod, nodes, now)

    def follow(self, decisions: Decisions, now: float) -> Iterator[None]:
        """Take over new decisions, in steps: learn from their readings, and forget pods that all of them include."""
        self._take(decisions)
        metrics: dict[str, frozenset[str]] = {}
        for key, decision in decisions.policies.items():
            if decision.policy.counts_placed:
                mine = _metrics(decision.policy, tuple(StrategyName))
                metrics[key.namespace] = metrics.get(key.namespace, frozenset()) | mine
        yield
        self._metrics = metrics
        named = frozenset[str]().union(*metrics.values())
        windows = [self.measures.measure_of(metric).window for metric in named]
        self._horizon = max(windows, default=0.0) + self._stale_after + SLACK
        yield
        yield from self.learned.read(self._window, self._read, now)
        none = frozenset[str]()
        self.learned.keep({key: metrics.get(key.namespace, none) for key in decisions.policies})
        self.ledger.forget(now - self._horizon)
        self.departed.forget(now - self._horizon)

    def counted(self, decision: Decision, decisions: Decisions, now: float) -> Counted:
        """Return a policy's decision with the pods that its readings do not include."""
        self.ledger.end_answers(now)
        policy = decision.policy
        counting = bool(self.ledger) and self.enabled and policy.counts_placed
        if not counting and (decision.ranking is None or policy.rank_by is RankBy.RANK):
            return Counted(decision, {})
        self._take(decisions)
        key = decision.policy.key
        version = (decision, self.ledger.version, self.learned.version)
        known = self._counted.get(key)
        if known is not None and known[0][0] is decision and known[0][1:] == version[1:]:
            return known[1]
        found = self._count(decision, decisions.table, known[1] if known else None)
        self._counted[key] = (version, found)
        return found

    def _take(self, decisions: Decisions) -> None:
        if decisions is not self._decisions:
            self._decisions = decisions
            self._counted, self._sizes = {}, {}

    def without_departed(self, policy: Policy, table: MetricTable) -> MetricTable:
        """Return a table without what pods of the policy's namespace add that left since the readings.

        So a node is not emptied further than it must be while its readings still include pods that have left. Pods of
        other namespaces do not count: a tenant must not end violations of another's policy.
        """
        if not self.departed or not self.enabled or not policy.counts_placed:
            return table
        columns, entries = {}, self.departed.weighed(table.nodes)
        for metric in _metrics(policy, (StrategyName.DESCHEDULE,)):
            found = self._additions(
                policy.key, metric, Operator.EQUALS, table, entries, self.departed.policies
            )
            if found is not None and found.own.any():
                columns[metric] = table.column(metric).moved(-found.own)
        return table.with_columns(columns) if columns else table

    def crowded(self, decision: Decision, decisions: Decisions, pod: PlacedPod) -> Mask:
        """Return the nodes that would violate a policy with a pod more, and those on their way, shape (nodes,)."""
        table, policy = decisions.table, decision.policy
        crowded = table.nodes.none
        if not self.enabled or not policy.counts_placed:
            return crowded
        own = Ledger()
        own.bind(pod, "", np.inf)
        more = own.weighed(table.nodes).on_each(len(table.nodes))
        entries = self.ledger.weighed(table.nodes)
        for name in COMPLIANCE:
            if (strategy := policy.strategies.get(name)) is None:
                continue
            met = []
            for rule in strategy.rules:
                column = table.column(rule.metric)
                parts = (
                    ()
                    if rule.derived
                    else (
                        self._additions(
                            policy.key,
                            rule.metric,
                            Operator.EQUALS,
                            table,
                            entries,
                            self.ledger.policies,
                        ),
                        self._additions(
                            policy.key, rule.metric, Operator.EQUALS, table, more, own.policies
                        ),
                    )
                )
                added = [part.unbiased for part in parts if part is not None]
                met.append(
                    column.moved(np.sum(added, axis=0)).matches(rule)
                    if added
                    else column.matches(rule)
                )
            if met:
                found = evaluate.combine(
                    strategy,
                    evaluate.stack_rules(met, table.nodes),
                    table.nodes.no_rules(len(met)),
                    table.nodes.no_rules(len(met)),
                )
                crowded = crowded | found.violated
        return crowded

    def included_at(self, uid: str, decision: Decision, decisions: Decisions) -> float:
        """Return when readings of a policy's deschedule rules can include a pod (seconds); 0 if the current ones do.

        Until then they say nothing about the pod.
        """
        bound, node = self.ledger.bound_at(uid), self.ledger.node(uid)
        position = decisions.table.nodes.position.get(node)
        counting = self.enabled and decision.policy.counts_placed
        if bound is None or position is None or not counting:
            return 0.0
        windows = [0.0]
        for metric in _metrics(decision.policy, (StrategyName.DESCHEDULE,)):
            measure = self.measures.measure_of(metric)
            at = float(decisions.table.columns[metric].at[position])
            if measure.load is not Load.NONE and at - bound < measure.window:
                windows.append(measure.window)
        return bound + max(windows) if len(windows) > 1 else 0.0

    def with_pod(self, decision: Decision, decisions: Decisions, pod: PlacedPod) -> Decision:
        """Return a decision that ranks nodes by what is left after the pod, if it ranks them by headroom."""
        ranking = decision.ranking
        if ranking is None or ranking.by is not RankBy.HEADROOM:
            return decision
        own, metric = Ledger(), ranking.rule.metric
        own.bind(pod, "", np.inf)
        (policy,), found = own.policies, own.weighed(decisions.table.nodes)
        everywhere = found.on_each(len(decisions.table.nodes))
        added = self._additions(
            decision.policy.key,
            metric,
            ranking.rule.operator,
            decisions.table,
            everywhere,
            [policy],
        )
        if added is None:
            return decision
        return replace(decision, ranking=ranking.moved(added.unbiased))

    def _count(self, decision: Decision, table: MetricTable, before: Counted | None) -> Counted:
        policy, added = decision.policy, {}
        entries = self.ledger.weighed(table.nodes)
        for metric in sorted(_metrics(policy)) if self.enabled and policy.counts_placed else ():
            found = self._additions(
                policy.key,
                metric,
                _operator(policy, metric),
                table,
                entries,
                self.ledger.policies,
            )
            if found is not None:
                added[metric] = found
        ranking = self._of_capacity(decision.ranking, table)
        if not added:
            changed = ranking is not decision.ranking
            return Counted(replace(decision, ranking=ranking) if changed else decision, {})
        if ranking is not None and ranking.rule.metric in added:
            ranking = ranking.moved(added[ranking.rule.metric].ranking)
        violations = self._violations(decision, table, added, before)
        return Counted(replace(decision, ranking=ranking, violations=violations), added)

    def _of_capacity(self, ranking: Ranking | None, table: MetricTable) -> Ranking | None:
        """Return the ranking with what nodes have of what its metric measures; the same object if it ranks by readings."""
        if ranking is None or ranking.by is RankBy.RANK:
            return ranking
        measure = self.measures.measure_of(ranking.rule.metric)
        if measure.resource is None:
            return ranking
        most = abs(measure.per_unit)
        if measure.share:
            return ranking.with_amounts(np.full(len(table.nodes), most))
        return ranking.with_amounts(
            most * self._capacity.over(table.nodes).of_resource(measure.resource)
        )

    def _additions(
        self,
        policy: PolicyKey,
        metric: str,
        operator: Operator,
        table: MetricTable,
        entries: Weighed,
        policies: Sequence[PolicyKey],
    ) -> Additions | None:
        """Return what these pods of `policies` add to a metric of a policy."""
        column = table.column(metric)
        size = self._sizes.get(metric)
        if size is None:
            size = self._sizes[metric] = Size.of_values(column.values)
        readings = MetricReadings(
            policy,
            metric,
            self.measures.measure_of(metric),
            worse(operator),
            column.values,
            column.readings.at,
            size,
        )
        capacity = self._capacity.over(table.nodes)
        return additions(entries, readings, policies, self.learned, capacity)

    def _violations(
        self,
        decision: Decision,
        table: MetricTable,
        added: Mapping[str, Additions],
        before: Counted | None,
    ) -> Mapping[StrategyName, Mapping[str, str]]:
        """Return the violations with those of dontschedule that the pods cause; pods never end a violation."""
        state = decision.states.get(StrategyName.DONTSCHEDULE)
        strategy = decision.policy.strategies.get(StrategyName.DONTSCHEDULE)
        if state is None or strategy is None:
            return decision.violations
        per_rule = state.found.per_rule
        more = {
            number: met
            for number, rule in enumerate(strategy.rules)
            if (met := _met(rule, table.column(rule.metric), added.get(rule.metric))) is not None
            and not per_rule[met, number].all()
        }
        if not more:
            return decision.violations
        per_rule = per_rule.copy(order="F")
        for number, met in more.items():
            per_rule[met, number] = True
        found: Violations = combine(
            strategy, fixed(per_rule), state.found.missing, state.found.from_previous_leader
        )
        reasons = ViolationReasons(decision.policy.key.name, strategy, table.nodes, found)
        earlier = before.decision if before is not None else decision
        return {
            **decision.violations,
            StrategyName.DONTSCHEDULE: reasons.reuse(earlier.dontschedule),
        }

    def _window(self, metric: str) -> float:
        return self.measures.measure_of(metric).window

    def _requested(self, pod: PlacedPod, metric: str) -> float:
        resource = self.measures.measure_of(metric).resource
        return 0.0 if resource is None else float(pod.requests[RESOURCES.index(resource)])

    def _read(self, metric: str, node: str) -> NodeReading | None:
        """Return the reading of a node in the current decisions; None if it is not usable."""
        table = self._decisions.table
        position = table.nodes.position.get(node)
        if position is None or metric not in table.columns:
            return None
        column, measure = table.column(metric), self.measures.measure_of(metric)
        scale = 1.0
        if measure.share and measure.resource is not None:
            scale = float(self._capacity.over(table.nodes).of_resource(measure.resource)[position])
        value, at = float(column.values[position]), float(column.readings.at[position])
        usable = np.isfinite(value) and np.isfinite(scale) and bool(column.usable[position])
        return NodeReading(value, at, scale) if usable else None


def _metrics(policy: Policy, names: Sequence[StrategyName] = PER_POD) -> frozenset[str]:
    """Return the measured metrics of some strategies; by default those that rank or filter nodes for a pod."""
    strategies = (policy.strategies.get(name) for name in names)
    rules = [rule for strategy in strategies if strategy for rule in strategy.rules]
    return frozenset(rule.metric for rule in rules if not rule.derived and not rule.peers)


def _operator(policy: Policy, metric: str) -> Operator:
    """Return the operator by which a policy ranks nodes by a metric; EQUALS if it does not."""
    strategy = policy.strategies.get(StrategyName.SCHEDULEONMETRIC)
    rule = strategy.rules[0] if strategy and strategy.rules else None
    return rule.operator if rule is not None and rule.metric == metric else Operator.EQUALS


def _met(rule: Rule, column: MetricColumn, added: Additions | None) -> Positions | None:
    """Return the nodes that meet a rule with the added pods; others may be left out. None if pods do not matter.

    A rule with `for` waits for readings, and pods only approach what Equals names.
    """
    if added is None or rule.options.for_seconds > 0.0 or rule.operator is Operator.EQUALS:
        return None
    return column.matches_with(rule, added.unbiased)
