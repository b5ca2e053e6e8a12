"""Data of /explain: every reading with its age, every rule with the nodes that violate it."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex, union
from evaluator.core.page_fields import Maybe, extended
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.durations import StrategyState
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.policy.strategies import COMPLIANCE, StrategyName
from evaluator.core.policy.types import WhenMissing
from evaluator.core.policy.violations import ViolationReasons
from evaluator.core.policy_status import Effects
from evaluator.core.readings.merged import Readings
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.features.pages.explain import wording
from evaluator.features.pages.explain.states import Codes, states_of
from evaluator.features.pages.explain.wording import ShownReading, readings_of
from evaluator.features.pages.kinds import (
    Enforcement,
    ExplainedPolicy,
    ListedPolicy,
    PolicyNode,
    PolicyRule,
    PolicyStrategy,
    RankedNodes,
)
from plimsoll.steps import Steps

MOST_NAMED = 100
"""Nodes named in one list; the rest is counted in a separate field, such as `brokenMore`."""
MOST_READINGS = 20_000
"""Readings on the page of one policy: 5,000 nodes with 4 metrics. Each takes about 100 bytes."""
MOST_POLICIES = 1_000
"""Policies on the overview page."""
_FEW = 10
"""Nodes named for each strategy on the overview page."""


class Explanation(NamedTuple):
    """One policy: `head` for the cluster, and `nodes`, evaluated lazily because there may be thousands."""

    head: ExplainedPolicy
    nodes: Iterator[tuple[str, PolicyNode]]


def overview(policies: Mapping[PolicyKey, Decision], table: MetricTable) -> Iterator[ListedPolicy]:
    """Yield up to `MOST_POLICIES` policies with their violating nodes."""
    for key, decision in islice(policies.items(), MOST_POLICIES):
        yield row(key, decision, table)


def row(key: PolicyKey, decision: Decision, table: MetricTable) -> ListedPolicy:
    """Return one policy of a list, with some of the violating nodes."""
    violators: dict[str, Any] = {}
    for name in COMPLIANCE:
        state = decision.states.get(name)
        mask = state.found.violated if state else table.nodes.none
        violators[name.value], more = _some(table.nodes, mask, _FEW)
        violators[f"{name.value}_more"] = more
        violators[f"{name.value}_held_back"] = (state.held_back_nodes if state else 0) or UNSET
    return ListedPolicy(
        policy=str(key),
        explain=f"/explain/{key.namespace}/{key.name}",
        enforcement="observe" if decision.policy.observed else "enforce",
        problems=list(decision.problems),
        warnings=list(decision.policy.warnings),
        **violators,
    )


def explain(
    decisions: Decisions,
    key: PolicyKey,
    readings: Readings,
    *,
    now: float,
    effects: Sequence[Effects] = (),
    node: str = "",
    shown: NodeIndex | None = None,
    cause_of: CauseOf = no_cause,
) -> Steps[Explanation | None]:
    """Return the explanation of one policy at `now` (seconds, the store's clock), in steps; None if there is no such policy.

    Results are those of the decisions; `readings` may be newer. `shown`: the nodes to show. By default these are `node`
    if given, else all, with at most `MOST_READINGS` readings, violating nodes first.
    """
    decision = decisions.policies.get(key)
    if decision is None:
        return None
    table = decisions.table
    if shown is None:
        shown = _shown(decision, table.nodes, node)
    yield
    strategies: dict[str, PolicyStrategy] = {}
    codes: Codes = (
        (yield from states_of(decision, table))
        if decision.policy.peer_metrics
        else np.zeros(0, np.uint8)
    )
    for name, strategy in decision.policy.strategies.items():
        if name.row.ranks:
            continue
        rules: list[PolicyRule] = []
        for number in range(len(strategy.rules)):
            found = _rule(decision.states[name], number, table, now=now)
            found.peers = yield from wording.groups_of_rule(
                decision.states[name], number, table, codes
            )
            rules.append(found)
            yield
        strategies[name.value] = PolicyStrategy(
            logical_operator="allOf" if strategy.all_of else "anyOf",
            words=wording.strategy(decision.policy, name),
            rules=rules,
        )
    rows: list[Iterator[ShownReading]] = []
    for metric in sorted(decision.policy.metrics):
        rows.append(readings_of(readings.column(decision.policy.shown[metric], shown, now)))
        yield
    awaited, awaited_more = limited(sorted(decision.unreported), MOST_NAMED)
    head = ExplainedPolicy(
        waiting_for=[],
        policy=str(key),
        generation=decision.policy.generation,
        enforcement=_enforcement(decision, table, effects),
        problems=list(decision.problems),
        warnings=list(decision.policy.warnings),
        awaited=awaited,
        awaited_more=awaited_more,
        strategies=strategies,
        scheduleonmetric=_ranking(decision, table, shown),
        nodes_more=len(table.nodes) - len(shown) or UNSET,
    )
    yield
    among = np.zeros(len(table.nodes), dtype=bool)
    among[table.nodes.find(shown)] = True
    reasons: dict[str, Mapping[str, str]] = {}
    for name, violations in decision.violations.items():
        reasons[name.value] = (
            violations.some(among) if isinstance(violations, ViolationReasons) else violations
        )
        yield
    return Explanation(head, _nodes(decision, reasons, shown, rows, now, cause_of))


def _shown(decision: Decision, nodes: NodeIndex, node: str) -> NodeIndex:
    """Return the nodes shown on a page, in order."""
    if node:
        return NodeIndex([node] if node in nodes.position else ())
    most = max(1, MOST_READINGS // max(1, len(decision.policy.metrics)))
    if len(nodes) <= most:
        return nodes
    bad = union((s.found.violated for s in decision.states.values()), nodes)
    first = np.concatenate([bad.nonzero()[0], (~bad).nonzero()[0]])[:most]
    return NodeIndex(nodes[position] for position in np.sort(first).tolist())


def _some(nodes: NodeIndex, mask: Bools, most: int = MOST_NAMED) -> tuple[list[str], Maybe[int]]:
    """Return the first nodes of a mask by name, and how many more there are."""
    positions = mask.nonzero()[0]
    names = [nodes[position] for position in positions[:most].tolist()]
    return names, len(positions) - len(names) or UNSET


def limited(names: Sequence[str], most: int) -> tuple[list[str], Maybe[int]]:
    """Return the first names, and how many more there are."""
    return list(names[:most]), max(0, len(names) - most) or UNSET


def _rule(state: StrategyState, number: int, table: MetricTable, *, now: float) -> PolicyRule:
    """Return one rule with its violating nodes, those with missing readings, and running timers."""
    rule, timers = state.rules[number], state.timers.get(number)
    broken, broken_more = _some(table.nodes, state.found.per_rule[:, number])
    found = PolicyRule(
        rule=str(rule), words=wording.rule(rule), broken=broken, broken_more=broken_more
    )
    if rule.labels:
        found.labels = {label.key: label.value for label in rule.labels}
    if rule.options.when_missing is WhenMissing.VIOLATE:
        found.missing, found.missing_more = _some(table.nodes, state.found.missing[:, number])
    if (held_back := state.held_back.get(number)) is not None:
        found.held_back, found.held_back_more = _some(table.nodes, held_back.mask)
    if timers is not None:
        began, options = timers.since - now, rule.options
        found.pending, found.pending_more = _remaining(
            table, timers.pending, began + options.for_seconds
        )
        found.clearing, found.clearing_more = _remaining(
            table, timers.clearing, began + options.clear_after
        )
    return found


def _remaining(
    table: MetricTable, where: Bools, seconds: Floats
) -> tuple[dict[str, float], Maybe[int]]:
    """Return the seconds until `for` or `clearAfter` expires, by node, and how many more nodes there are."""
    names, more = _some(table.nodes, where)
    positions = np.flatnonzero(where)[:MOST_NAMED]
    remaining = np.maximum(0.0, seconds[positions]).round(3).tolist()
    return dict(zip(names, remaining, strict=True)), more


def _ranking(decision: Decision, table: MetricTable, shown: NodeIndex) -> Maybe[RankedNodes]:
    if decision.ranking is None:
        return UNSET
    rule, scores = decision.ranking.rule, dict(decision.ranking.scores(table.nodes))
    better = {"LessThan": "lower is better", "GreaterThan": "higher is better"}
    return RankedNodes(
        metric=rule.metric,
        words=wording.strategy(decision.policy, StrategyName.SCHEDULEONMETRIC),
        order=better.get(rule.operator.value, "none: every node with a reading scores the same"),
        scores={node: scores[node] for node in shown if node in scores and not rule.shown},
    )


def _nodes(
    decision: Decision,
    reasons: Mapping[str, Mapping[str, str]],
    nodes: NodeIndex,
    columns: Sequence[Iterator[ShownReading]],
    now: float,
    cause_of: CauseOf,
) -> Iterator[tuple[str, PolicyNode]]:
    metrics = sorted(decision.policy.metrics)
    labels = assignments_of(decision.labels)
    rows: Iterator[tuple[ShownReading, ...]] = zip(*columns, strict=True)
    for node, row in zip(nodes, rows if metrics else itertools.repeat(()), strict=False):
        yield (
            node,
            PolicyNode(
                readings={
                    metric: reading.as_json(now, cause_of(metric, node, reading.source))
                    for metric, reading in zip(metrics, row, strict=True)
                },
                labels=labels.labels_at(labels.nodes.position[node]) if labels.assignments else {},
                **{strategy: by_node.get(node) for strategy, by_node in reasons.items()},
            ),
        )


def _enforcement(decision: Decision, table: MetricTable, effects: Sequence[Effects]) -> Enforcement:
    """Return the mode of a policy, and what enforcing it would change; up to `MOST_NAMED` names in each list."""
    policy = decision.policy
    if not policy.observed:
        return Enforcement(mode="enforce")
    lists: dict[str, list[str] | int] = {}
    for name, _, affected in (
        effect for part in effects for effect in part.effects(decision, table)
    ):
        lists[name] = list(affected[:MOST_NAMED])
        if len(affected) > MOST_NAMED:
            lists[f"{name}More"] = len(affected) - MOST_NAMED
    found = Enforcement(mode="observe", by=policy.observed_by, would_change=lists)
    return extended(found, *(part.flags() for part in effects))
