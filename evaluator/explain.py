"""Why things are as decided: every reading with its age, every rule with the nodes that break it, as plain data."""

import math
from typing import Any

import numpy as np

from evaluator.decisions import Decision, Decisions
from evaluator.hysteresis import Standing
from evaluator.policy import PolicyKey, StrategyName
from evaluator.rules import View
from evaluator.store import NEVER, Bools, Column, Floats
from evaluator.terms import WhenMissing


def overview(decisions: Decisions) -> dict[str, Any]:
    """All policies, with what they find violated."""
    return {
        "policies": [
            {
                "policy": str(key),
                "explain": f"/explain/{key.namespace}/{key.name}",
                "dontschedule": sorted(decision.dontschedule),
                "deschedule": sorted(decision.deschedule),
                "problems": list(decision.problems),
            }
            for key, decision in decisions.policies.items()
        ]
    }


def explain(decisions: Decisions, key: PolicyKey, *, now: float) -> dict[str, Any] | None:
    """One policy in full at `now` (seconds, the store's clock); None if there is no such policy."""
    decision = decisions.policies.get(key)
    if decision is None:
        return None
    view = decisions.view
    return {
        "policy": str(key),
        "generation": decision.policy.generation,
        "problems": list(decision.problems),
        "awaited": sorted(decision.awaited),
        "strategies": {
            name.value: {
                "logicalOperator": "allOf" if strategy.all_of else "anyOf",
                "rules": [
                    _rule(decision.standings[name], number, view, now=now)
                    for number in range(len(strategy.rules))
                ],
            }
            for name, strategy in decision.policy.strategies.items()
            if name is not StrategyName.SCHEDULEONMETRIC
        },
        **_ranking(decision, view),
        "nodes": {node: _node(decision, view, i, now=now) for i, node in enumerate(view.nodes)},
    }


def _rule(standing: Standing, number: int, view: View, *, now: float) -> dict[str, Any]:
    """One rule: who violates it, for want of a reading or not, and for whom time is running."""
    rule, memory = standing.rules[number], standing.memories.get(number)
    found: dict[str, Any] = {
        "rule": str(rule),
        "broken": _names(view, standing.found.broken[:, number]),
    }
    if rule.labels:
        found["labels"] = {label.key: label.value for label in rule.labels}
    if rule.terms.when_missing is WhenMissing.VIOLATE:
        found["missing"] = _names(view, standing.found.missing[:, number])
    if memory is not None:
        found["pending"] = _left(view, memory.pending, memory.since + rule.terms.hold - now)
        found["clearing"] = _left(view, memory.clearing, memory.since + rule.terms.clear - now)
    return found


def _left(view: View, where: Bools, seconds: Floats) -> dict[str, float]:
    """Node → the seconds until its `for` or `clearAfter` runs out."""
    positions = np.flatnonzero(where).tolist()
    return {view.nodes[p]: round(max(0.0, float(seconds[p])), 3) for p in positions}


def _names(view: View, mask: Bools) -> list[str]:
    return [view.nodes[position] for position in np.flatnonzero(mask).tolist()]


def _ranking(decision: Decision, view: View) -> dict[str, Any]:
    if decision.ranking is None:
        return {}
    rule = decision.ranking.rule
    better = {"LessThan": "lower is better", "GreaterThan": "higher is better"}
    return {
        "scheduleonmetric": {
            "metric": rule.metric,
            "order": better.get(
                rule.operator.value, "none: every node with a reading scores the same"
            ),
            "scores": dict(decision.ranking.scores(view.nodes)),
        }
    }


def _node(decision: Decision, view: View, position: int, *, now: float) -> dict[str, Any]:
    node = view.nodes[position]
    metrics = sorted(decision.policy.metrics)
    return {
        "readings": {m: _reading(view.columns[m], position, now) for m in metrics},
        "dontschedule": decision.dontschedule.get(node),
        "deschedule": decision.deschedule.get(node),
        "labels": dict(decision.labels.get(node, {})),
    }


def _reading(column: Column, position: int, now: float) -> dict[str, Any]:
    """JSON has no NaN and no infinities: such a value is its name in quotes."""
    samples, at = int(column.samples[position]), float(column.at[position])
    value = float(column.values[position])
    return {
        "value": (value if math.isfinite(value) else str(value)) if samples == 1 else None,
        "ageSeconds": None if at == NEVER else round(now - at, 3),
        "state": _state(column, position, samples),
        **_source(column, position),
    }


def _source(column: Column, position: int) -> dict[str, str]:
    """Whose reading it is, where there are several sources."""
    if (origin := column.origin) is None or column.at[position] == NEVER:
        return {}
    return {"source": origin.names[origin.place[position]]}


def _state(column: Column, position: int, samples: int) -> str:
    if column.awaited[position]:
        return "awaited: no first report yet"
    if column.unread[position]:
        known = "the last reading still counts" if column.fresh[position] else "nothing is known"
        return f"unread: its source cannot be read, {known}"
    if not column.fresh[position]:
        never = column.at[position] == NEVER
        return "missing: never reported" if never else "stale: too old to rely on"
    match samples:
        case 0:
            return "absent: the node does not have this metric"
        case 1:
            return "fresh" if column.usable[position] else "fresh, but not a number"
        case _:
            return f"ambiguous: {samples} series, no single value"
