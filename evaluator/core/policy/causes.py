"""What the readings come from that make nodes violate rules, such as devices."""

from collections.abc import Iterable

import numpy as np

from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import COMPLIANCE, STRONGEST_FIRST, StrategyName
from evaluator.core.readings.reported import CauseOf, no_cause
from plimsoll.quantity import readable
from plimsoll.text import one_line

_MOST_RULES = 5
"""Rules that a message names."""


def cause_at(table: MetricTable, metric: str, position: int, cause_of: CauseOf) -> str:
    """Return what the reading of a metric on the node at a position comes from, such as a device; empty if no agent says."""
    column = table.columns.get(metric)
    if column is None:
        return ""
    return cause_of(metric, table.nodes[position], column.source_at(position))


def causes_at(
    decision: Decision,
    table: MetricTable,
    position: int,
    cause_of: CauseOf,
    strategies: Iterable[StrategyName] = COMPLIANCE,
) -> list[str]:
    """Return what the readings of the rules that the node at a position violates come from, without those of which no agent says it."""
    found = []
    for name in strategies:
        state = decision.states.get(name)
        if state is not None and state.found.violated[position]:
            found += [
                cause_at(table, state.rules[number].metric, position, cause_of)
                for number in state.found.per_rule[position].nonzero()[0].tolist()
            ]
    return [*dict.fromkeys(filter(None, found))]


def violation_message(
    decision: Decision, table: MetricTable, node: str, cause_of: CauseOf = no_cause
) -> str:
    """Return why a node violates a policy: each rule with the reading, and its cause."""
    position, policy = table.nodes.position.get(node), decision.policy
    rules = []
    for name in STRONGEST_FIRST:
        state = decision.states.get(name)
        if state is None or position is None or not state.found.violated[position]:
            continue
        for number in state.found.per_rule[position].nonzero()[0].tolist():
            rule = policy.strategies[name].rules[number]
            value = float(table.column(rule.metric).values[position])
            reading = f"reading {readable(rule.metric, value, rule.target)}"
            cause = cause_at(table, rule.metric, position, cause_of)
            reading += f": {cause}" if cause else ""
            rules.append(f"{rule} ({'no reading' if np.isnan(value) else reading})")
    if not rules:
        return f"policy {policy.key} is not violated"
    shown = list(dict.fromkeys(rules))[:_MOST_RULES]
    return one_line(f"policy {policy.key} is violated: {', '.join(shown)}")
