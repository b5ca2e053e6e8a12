"""What the readings come from that make nodes violate rules, such as devices."""

from collections.abc import Iterable

from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import COMPLIANCE, StrategyName
from evaluator.core.readings.reported import CauseOf


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
