"""Data of /explain: every reading with its age, every rule with the nodes that violate it."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex, union
from evaluator.core.pages.facts import joined
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

    head: dict[str, Any]
    nodes: Iterator[tuple[str, dict[str, Any]]]


def overview(
    policies: Mapping[PolicyKey, Decision], table: MetricTable
) -> Iterator[dict[str, Any]]:
    """Yield up to `MOST_POLICIES` policies with their violating nodes."""
    for key, decision in islice(policies.items(), MOST_POLICIES):
        yield row(key, decision, table)


def row(key: PolicyKey, decision: Decision, table: MetricTable) -> dict[str, Any]:
    """Return one policy of a list, with some of the violating nodes."""
    return {
        "policy": str(key),
        "explain": f"/explain/{key.namespace}/{key.name}",
        **joined(_violators(decision, name, table) for name in COMPLIANCE),
        "enforcement": "observe" if decision.policy.observed else "enforce",
        "problems": list(decision.problems),
        "warnings": list(decision.policy.warnings),
    }


def _violators(decision: Decision, name: StrategyName, table: MetricTable) -> dict[str, Any]:
    state = decision.states.get(name)
    mask = state.found.violated if state else table.nodes.none
    held_back = state.held_back_nodes if state else 0
    more = {f"{name.value}HeldBack": held_back} if held_back else {}
    return _some(name.value, table.nodes, mask, _FEW) | more


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
    strategies = {}
    codes: Codes = (
        (yield from states_of(decision, table))
        if decision.policy.peer_metrics
        else np.zeros(0, np.uint8)
    )
    for name, strategy in decision.policy.strategies.items():
        if name.row.ranks:
            continue
        rules: list[dict[str, Any]] = []
        for number in range(len(strategy.rules)):
            found = _rule(decision.states[name], number, table, now=now)
            found |= yield from wording.groups_of_rule(decision.states[name], number, table, codes)
            rules.append(found)
            yield
        operator = "allOf" if strategy.all_of else "anyOf"
        strategies[name.value] = {
            "logicalOperator": operator,
            "words": wording.strategy(decision.policy, name),
            "rules": rules,
        }
    rows: list[Iterator[ShownReading]] = []
    for metric in sorted(decision.policy.metrics):
        rows.append(readings_of(readings.column(metric, shown, now)))
        yield
    head = {
        "policy": str(key),
        "generation": decision.policy.generation,
        **_enforcement(decision, table, effects),
        "problems": list(decision.problems),
        "warnings": list(decision.policy.warnings),
        **limited("awaited", sorted(decision.unreported), MOST_NAMED),
        "strategies": strategies,
        **_ranking(decision, table, shown),
        **({"nodesMore": len(table.nodes) - len(shown)} if len(shown) < len(table.nodes) else {}),
    }
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


def _some(field: str, nodes: NodeIndex, mask: Bools, most: int = MOST_NAMED) -> dict[str, Any]:
    """Return the first nodes of a mask by name; the rest is counted in a separate field."""
    positions = mask.nonzero()[0]
    names = [nodes[position] for position in positions[:most].tolist()]
    more = {f"{field}More": len(positions) - most} if len(positions) > most else {}
    return {field: names, **more}


def limited(field: str, names: Sequence[str], most: int) -> dict[str, Any]:
    """Return the first names; the rest is counted in a separate field."""
    more = {f"{field}More": len(names) - most} if len(names) > most else {}
    return {field: list(names[:most]), **more}


def _rule(state: StrategyState, number: int, table: MetricTable, *, now: float) -> dict[str, Any]:
    """Return one rule with its violating nodes, those with missing readings, and running timers."""
    rule, timers = state.rules[number], state.timers.get(number)
    facts: dict[str, Any] = {
        "rule": str(rule),
        "words": wording.rule(rule),
        **_some("broken", table.nodes, state.found.per_rule[:, number]),
    }
    if rule.labels:
        facts["labels"] = {label.key: label.value for label in rule.labels}
    if rule.options.when_missing is WhenMissing.VIOLATE:
        facts |= _some("missing", table.nodes, state.found.missing[:, number])
    if (held_back := state.held_back.get(number)) is not None:
        facts |= _some("heldBack", table.nodes, held_back.mask)
    if timers is not None:
        facts |= _remaining(
            "pending", table, timers.pending, timers.since + rule.options.for_seconds - now
        )
        facts |= _remaining(
            "clearing", table, timers.clearing, timers.since + rule.options.clear_after - now
        )
    return facts


def _remaining(field: str, table: MetricTable, where: Bools, seconds: Floats) -> dict[str, Any]:
    """Return the seconds until `for` or `clearAfter` expires, by node."""
    some = _some(field, table.nodes, where)
    positions = np.flatnonzero(where)[:MOST_NAMED]
    remaining = np.maximum(0.0, seconds[positions]).round(3).tolist()
    return some | {field: dict(zip(some[field], remaining, strict=True))}


def _ranking(decision: Decision, table: MetricTable, shown: NodeIndex) -> dict[str, Any]:
    if decision.ranking is None:
        return {}
    rule, scores = decision.ranking.rule, dict(decision.ranking.scores(table.nodes))
    better = {"LessThan": "lower is better", "GreaterThan": "higher is better"}
    return {
        "scheduleonmetric": {
            "metric": rule.metric,
            "words": wording.strategy(decision.policy, StrategyName.SCHEDULEONMETRIC),
            "order": better.get(
                rule.operator.value, "none: every node with a reading scores the same"
            ),
            "scores": {node: scores[node] for node in shown if node in scores},
        }
    }


def _nodes(
    decision: Decision,
    reasons: Mapping[str, Mapping[str, str]],
    nodes: NodeIndex,
    columns: Sequence[Iterator[ShownReading]],
    now: float,
    cause_of: CauseOf,
) -> Iterator[tuple[str, dict[str, Any]]]:
    metrics = sorted(decision.policy.metrics)
    labels = assignments_of(decision.labels)
    rows: Iterator[tuple[ShownReading, ...]] = zip(*columns, strict=True)
    for node, row in zip(nodes, rows if metrics else itertools.repeat(()), strict=False):
        yield (
            node,
            {
                "readings": {
                    metric: reading.as_json(now, cause_of(metric, node, reading.source))
                    for metric, reading in zip(metrics, row, strict=True)
                },
                **{strategy: by_node.get(node) for strategy, by_node in reasons.items()},
                "labels": labels.at(labels.nodes.position[node]) if labels.assignments else {},
            },
        )


def _enforcement(
    decision: Decision, table: MetricTable, effects: Sequence[Effects]
) -> dict[str, Any]:
    """Return the mode of a policy, and what enforcing it would change; up to `MOST_NAMED` names in each list."""
    policy = decision.policy
    if not policy.observed:
        return {"enforcement": {"mode": "enforce"}}
    lists: dict[str, Any] = {}
    for name, _, affected in (
        effect for part in effects for effect in part.effects(decision, table)
    ):
        lists[name] = list(affected[:MOST_NAMED])
        if len(affected) > MOST_NAMED:
            lists[f"{name}More"] = len(affected) - MOST_NAMED
    enforcement = {"mode": "observe", "by": policy.observed_by, "wouldChange": lists}
    for part in effects:
        enforcement |= part.facts()
    return {"enforcement": enforcement}
