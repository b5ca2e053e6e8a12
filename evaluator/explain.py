"""Why things are as decided: every reading with its age, every rule with the nodes that break it, as plain data."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from evaluator.decisions import Decision, Decisions
from evaluator.hysteresis import Standing
from evaluator.policy import PolicyKey, StrategyName
from evaluator.rules import View
from evaluator.store import NEVER, Bools, Column, Floats
from evaluator.terms import WhenMissing


class Explanation(NamedTuple):
    """One policy, in two parts: `head` for the whole cluster, `nodes` for one node after the other.

    There may be thousands of nodes, so they are only worked out as they are asked for.
    """

    head: dict[str, Any]
    nodes: Iterator[tuple[str, dict[str, Any]]]


def overview(decisions: Decisions) -> Iterator[dict[str, Any]]:
    """All policies, with what they find violated."""
    for key, decision in decisions.policies.items():
        yield {
            "policy": str(key),
            "explain": f"/explain/{key.namespace}/{key.name}",
            "dontschedule": sorted(decision.dontschedule),
            "deschedule": sorted(decision.deschedule),
            "problems": list(decision.problems),
        }


def explain(decisions: Decisions, key: PolicyKey, *, now: float) -> Explanation | None:
    """One policy in full at `now` (seconds, the store's clock); None if there is no such policy."""
    decision = decisions.policies.get(key)
    if decision is None:
        return None
    view = decisions.view
    head = {
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
    }
    return Explanation(head, _nodes(decision, view, now))


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


def _nodes(decision: Decision, view: View, now: float) -> Iterator[tuple[str, dict[str, Any]]]:
    metrics = sorted(decision.policy.metrics)
    rows = zip(*(_readings(view.columns[metric]) for metric in metrics), strict=True)
    for node, row in zip(view.nodes, rows if metrics else itertools.repeat(()), strict=False):
        yield (
            node,
            {
                "readings": {
                    metric: reading.told(now) for metric, reading in zip(metrics, row, strict=True)
                },
                "dontschedule": decision.dontschedule.get(node),
                "deschedule": decision.deschedule.get(node),
                "labels": dict(decision.labels.get(node, {})),
            },
        )


class _Reading(NamedTuple):
    """One node's part of a column."""

    value: float
    samples: int
    at: float
    fresh: bool
    unread: bool
    awaited: bool
    usable: bool
    source: str = ""
    """Whose reading it is, where there are several sources."""

    def told(self, now: float) -> dict[str, Any]:
        """JSON has no NaN and no infinities: such a value is its name in quotes."""
        value = self.value if math.isfinite(self.value) else str(self.value)
        known = self.at != NEVER
        return {
            "value": value if self.samples == 1 else None,
            "ageSeconds": round(now - self.at, 3) if known else None,
            "state": self.state,
            **({"source": self.source} if self.source and known else {}),
        }

    @property
    def state(self) -> str:
        if self.awaited:
            return "awaited: no first report yet"
        if self.unread:
            known = "the last reading still counts" if self.fresh else "nothing is known"
            return f"unread: its source cannot be read, {known}"
        if not self.fresh:
            never = self.at == NEVER
            return "missing: never reported" if never else "stale: too old to rely on"
        match self.samples:
            case 0:
                return "absent: the node does not have this metric"
            case 1:
                return "fresh" if self.usable else "fresh, but not a number"
            case _:
                return f"ambiguous: {self.samples} series, no single value (`problems` says what to do)"


def _readings(column: Column) -> Iterator[_Reading]:
    parts = (
        *(column.values, column.samples, column.at),
        *(column.fresh, column.unread, column.awaited, column.usable),
    )
    lists = [part.tolist() for part in parts]
    if (origin := column.origin) is not None:
        lists.append([origin.names[place] for place in origin.place.tolist()])
    return map(_Reading, *lists)
