"""Decisions that include the pods placed since the readings: what the extender answers and /explain shows.

If the readings include all pods, the decision is the same object as without: answers are Telemetry Aware Scheduling's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Floats, Mask, NodeIndex, fixed
from evaluator.core.model.pod_demand import Resource
from evaluator.core.model.resources import RESOURCES
from evaluator.core.model.resources import Allocatable as NodeAllocatable
from evaluator.core.placement.estimates import Additions, MetricReadings, Size, additions, worse
from evaluator.core.placement.learned import Added, Learned, NodeReading
from evaluator.core.placement.ledger import Ledger, PlacedPod, Weighed
from evaluator.core.placement.measures import LONGEST_WINDOW, Measures, shown
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricColumn, MetricTable, Violations, combine
from evaluator.core.policy.ranking import Ranking
from evaluator.core.policy.strategies import PER_POD, StrategyName
from evaluator.core.policy.types import Operator, Policy, RankBy, Rule
from evaluator.core.policy.violations import ViolationReasons
from plimsoll.text import counted

SLACK = 60.0
"""Seconds beyond the longest window and the age of a usable reading for which a pod is kept."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A policy's decision with the pods that its readings do not include, and by metric what was added; none without pods."""

    decision: Decision
    added: Mapping[str, Additions]


_Version = tuple[Decision, int, int]
"""What a counted decision was made from: the decision, and the versions of the ledger and of what was learned."""


class _Capacity:
    """What nodes have, as arrays over the nodes of a decision."""

    def __init__(self, of: Callable[[str], NodeAllocatable | None]) -> None:
        self._of = of
        self._nodes = NodeIndex()
        self._arrays: dict[Resource, Floats] = {}

    def over(self, nodes: NodeIndex) -> "_Capacity":
        """Use these nodes from now on."""
        if nodes is not self._nodes:
            self._nodes, self._arrays = nodes, {}
        return self

    def changed(self) -> None:
        """A node's allocatable amounts changed."""
        self._arrays.clear()

    def of(self, resource: Resource) -> Floats:
        """Return the allocatable amount of each node, shape (nodes,); NaN if unknown."""
        found = self._arrays.get(resource)
        if found is None:
            number = RESOURCES.index(resource)
            amounts = (self._of(node) for node in self._nodes)
            values = (np.nan if has is None else has[number] for has in amounts)
            found = np.fromiter(values, np.float64, len(self._nodes))
            self._arrays[resource] = fixed(found)
        return found


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
        self.learned = Learned()
        self._measures = measures
        self._capacity = _Capacity(allocatable)
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

    def gone(self, pod: PlacedPod, node: str) -> None:
        """A bound pod finished, is being deleted, or is gone."""
        self.ledger.remove(pod.uid)
        self.learned.left(node, self._metrics.get(pod.policy.namespace, ()))

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
                mine = _metrics(decision.policy)
                metrics[key.namespace] = metrics.get(key.namespace, frozenset()) | mine
        yield
        self._metrics = metrics
        named = frozenset[str]().union(*metrics.values())
        windows = [self._measures.of(metric).window for metric in named]
        self._horizon = max(windows, default=0.0) + self._stale_after + SLACK
        yield
        yield from self.learned.read(self._window, self._read, now)
        none = frozenset[str]()
        self.learned.keep({key: metrics.get(key.namespace, none) for key in decisions.policies})
        self.ledger.forget(now - self._horizon)

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

    def explained(self, counted: Counted, node: int) -> Iterator[dict[str, object]]:
        """Yield what counts on the node at a position, by metric: `pods`, `counted` and both as a sentence."""
        ranking = counted.decision.ranking
        for metric, added in counted.added.items():
            pods = float(added.placed[node])
            if not pods:
                continue
            ranks = ranking is not None and ranking.rule.metric == metric
            amount = float((added.ranking if ranks else added.unbiased)[node])
            text, noun = shown(amount, self._measures.of(metric)), "pod" if pods == 1 else "pods"
            yield {
                "metric": metric,
                "pods": pods,
                "counted": amount,
                "text": f"{pods:g} {noun} placed since this reading, counted as {text}",
            }

    def learned_of(self, policy: PolicyKey) -> dict[str, dict[str, object]]:
        """Return what pods of a policy were seen to add, by metric, with a sentence."""
        return {
            metric: {
                "perPod": added.per_pod,
                "trials": added.trials,
                "text": self._added(metric, added),
            }
            for (key, metric), added in self.learned.all().items()
            if key == policy
        }

    def _added(self, metric: str, added: Added) -> str:
        amount = shown(added.per_pod, replace(self._measures.of(metric), share=False))
        return f"a pod adds {amount}: the median of {counted(added.trials, 'trial')}"

    def _take(self, decisions: Decisions) -> None:
        if decisions is not self._decisions:
            self._decisions = decisions
            self._counted, self._sizes = {}, {}

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
        measure = self._measures.of(ranking.rule.metric)
        if measure.resource is None:
            return ranking
        most = abs(measure.per_unit)
        if measure.share:
            return ranking.of(np.full(len(table.nodes), most))
        return ranking.of(most * self._capacity.over(table.nodes).of(measure.resource))

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
            size = self._sizes[metric] = Size.of(column.values)
        readings = MetricReadings(
            policy,
            metric,
            self._measures.of(metric),
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
        columns = [
            _met(rule, table.column(rule.metric), added.get(rule.metric)) for rule in strategy.rules
        ]
        more = [
            (number, met & ~per_rule[:, number])
            for number, met in enumerate(columns)
            if met is not None and (met & ~per_rule[:, number]).any()
        ]
        if not more:
            return decision.violations
        per_rule = per_rule.copy(order="F")
        for number, met in more:
            per_rule[:, number] |= met
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
        return self._measures.of(metric).window

    def _requested(self, pod: PlacedPod, metric: str) -> float:
        resource = self._measures.of(metric).resource
        return 0.0 if resource is None else float(pod.requests[RESOURCES.index(resource)])

    def _read(self, metric: str, node: str) -> NodeReading | None:
        """Return the reading of a node in the current decisions; None if it is not usable."""
        table = self._decisions.table
        position = table.nodes.position.get(node)
        if position is None or metric not in table.columns:
            return None
        column, measure = table.column(metric), self._measures.of(metric)
        scale = 1.0
        if measure.share and measure.resource is not None:
            scale = float(self._capacity.over(table.nodes).of(measure.resource)[position])
        value, at = float(column.values[position]), float(column.readings.at[position])
        usable = np.isfinite(value) and np.isfinite(scale) and bool(column.usable[position])
        return NodeReading(value, at, scale) if usable else None


def _metrics(policy: Policy) -> frozenset[str]:
    """Return the measured metrics that rank or filter nodes for a pod."""
    strategies = (policy.strategies.get(name) for name in PER_POD)
    rules = [rule for strategy in strategies if strategy for rule in strategy.rules]
    return frozenset(rule.metric for rule in rules if not rule.derived)


def _operator(policy: Policy, metric: str) -> Operator:
    """Return the operator by which a policy ranks nodes by a metric; EQUALS if it does not."""
    strategy = policy.strategies.get(StrategyName.SCHEDULEONMETRIC)
    rule = strategy.rules[0] if strategy and strategy.rules else None
    return rule.operator if rule is not None and rule.metric == metric else Operator.EQUALS


def _met(rule: Rule, column: MetricColumn, added: Additions | None) -> Mask | None:
    """Return where a rule is met with the added pods; None if they do not matter.

    A rule with `for` waits for readings, and pods only approach what Equals names.
    """
    timed = rule.options.for_seconds > 0.0
    if added is None or timed or rule.operator is Operator.EQUALS or not added.unbiased.any():
        return None
    return column.moved(added.unbiased).matches(rule)
