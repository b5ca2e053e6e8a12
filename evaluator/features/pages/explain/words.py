"""Rules and strategies as sentences."""

from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Operator, Policy, Rule, WhenMissing, formatted
from plimsoll.durations import format_duration

_COMPARISONS = {
    Operator.LESS_THAN: "is less than",
    Operator.GREATER_THAN: "is greater than",
    Operator.EQUALS: "equals",
}
_ORDERS = {
    Operator.LESS_THAN: "is lowest",
    Operator.GREATER_THAN: "is highest",
    Operator.EQUALS: "has any value",
}


def rule(found: Rule) -> str:
    """Return a comparison with its durations as a sentence without subject."""
    target = found.written or formatted(found.target)
    parts = [f"{found.metric} {_COMPARISONS[found.operator]} {target}"]
    options = found.options
    if options.for_seconds:
        parts.append(f"for {format_duration(options.for_seconds)}")
    if options.clear_after:
        parts.append(f"until it did not for {format_duration(options.clear_after)}")
    if options.when_missing is WhenMissing.VIOLATE:
        parts.append("or has no usable reading")
    return ", ".join(parts)


def strategy(policy: Policy, name: StrategyName) -> str:
    """Return what a strategy of a policy does."""
    found = policy.strategies[name]
    row = name.row
    if row.ranks:
        first = found.rules[0] if found.rules else None
        return f"{row.explained} {first.metric} {_ORDERS[first.operator]}" if first else ""
    if row.sets_labels:
        return row.explained
    joined = "all of these rules hold" if found.all_of else "any of these rules holds"
    if len(found.rules) == 1:
        joined = "this rule holds"
    return f"{row.explained} {joined}"
