"""What a policy means, in sentences for the person who wrote it."""

from collections.abc import Iterator

from evaluator.policy import rule_options
from evaluator.policy.rule_options import WhenMissing
from evaluator.policy.types import (
    PER_POD_STRATEGIES,
    VIOLATING,
    Operator,
    Policy,
    Rule,
    Strategy,
    StrategyName,
)
from evaluator.scoring.derived import DERIVED_METRICS
from plimsoll.durations import format_duration

_COMPARED = {
    Operator.LESS_THAN: "below",
    Operator.GREATER_THAN: "above",
    Operator.EQUALS: "exactly",
}


def explained(policy: Policy) -> Iterator[str]:
    """One line for each strategy of a policy, and an indented one for each of its rules."""
    for name, strategy in policy.strategies.items():
        yield f"{name}: {_where(name, strategy)}{_consequence(policy, name)}"
        for number, rule in enumerate(strategy.rules, start=1):
            yield f"  {number}. {sentence(name, rule)}"


def _consequence(policy: Policy, name: StrategyName) -> str:
    match name:
        case StrategyName.DONTSCHEDULE:
            return "no new pod of this policy may go to the node"
        case StrategyName.DESCHEDULE:
            label = f"{policy.key.name}={VIOLATING}"
            return f"the node is labelled {label}, and pods of this policy should leave it"
        case StrategyName.LABELING:
            return "the node gets the labels"
        case StrategyName.SCHEDULEONMETRIC:
            return "nodes are ranked for new pods of this policy"


def _where(name: StrategyName, strategy: Strategy) -> str:
    if name is StrategyName.SCHEDULEONMETRIC:
        return ""
    if not strategy.rules:
        return "nowhere, for want of a rule, "
    if strategy.all_of and strategy.impossible:
        return "nowhere, since one of its rules cannot be understood, "
    if len(strategy.rules) == 1:
        return "where this rule holds, "
    return f"where {'all of these rules hold' if strategy.all_of else 'any of these rules holds'}, "


def sentence(name: StrategyName, rule: Rule) -> str:
    """What one rule of a strategy means."""
    if name is StrategyName.SCHEDULEONMETRIC:
        return _ranked(rule, _subject(name, rule))
    says = f"Holds {_when(rule, _subject(name, rule))}."
    if rule.options.when_missing is WhenMissing.VIOLATE:
        says += " A node without a reading counts as if it were so."
    if rule.labels:
        wanted = " and ".join(f"{label.key}={label.value}" for label in rule.labels)
        says += f" Sets {wanted}."
    return says


def _subject(name: StrategyName, rule: Rule) -> str:
    for_the_pod = rule.metric in DERIVED_METRICS and name in PER_POD_STRATEGIES
    return f"{rule.metric} (for the pod that is to be placed)" if for_the_pod else rule.metric


def _when(rule: Rule, subject: str) -> str:
    target = rule.written or rule_options.formatted(rule.target)
    number = rule_options.formatted(rule.target)
    value = target if target == number else f"{target} ({number})"
    compared = f"{_COMPARED[rule.operator]} {value}"
    clear = format_duration(rule.options.clear_after)
    if not rule.options.for_seconds:
        after = f", and for {clear} after" if rule.options.clear_after else ""
        return f"while {subject} is {compared}{after}"
    after = f", until {clear} after it no longer is" if rule.options.clear_after else ""
    return (
        f"once {subject} has been {compared} for {format_duration(rule.options.for_seconds)}{after}"
    )


def _ranked(rule: Rule, subject: str) -> str:
    orders = {
        Operator.LESS_THAN: f"The lower {subject} is, the better",
        Operator.GREATER_THAN: f"The higher {subject} is, the better",
        Operator.EQUALS: f"Every node with a reading of {subject} is as good as any other",
    }
    return f"{orders[rule.operator]}; a node without a reading comes last."
