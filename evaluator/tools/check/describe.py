"""Describes policies in sentences, for `check`."""

from collections.abc import Iterator

from evaluator.core.policy import rule_options
from evaluator.core.policy.actions.names import DOMAIN, taint_key
from evaluator.core.policy.actions.types import Action, TaintEffect
from evaluator.core.policy.rule_options import WhenMissing
from evaluator.core.policy.types import (
    PER_POD_STRATEGIES,
    VIOLATING,
    Operator,
    Policy,
    Rule,
    Strategy,
    StrategyName,
)
from evaluator.features.scorers.derived import DERIVED_METRICS
from plimsoll.durations import format_duration

_COMPARED = {
    Operator.LESS_THAN: "below",
    Operator.GREATER_THAN: "above",
    Operator.EQUALS: "exactly",
}


def describe(policy: Policy) -> Iterator[str]:
    """Yield a line for each strategy of a policy, and an indented line for each rule."""
    if policy.observed:
        yield f"only observed, by {policy.observed_by}: nothing of the following is enforced"
    yield from _actions(policy)
    for name, strategy in policy.strategies.items():
        yield f"{name}: {_where(name, strategy)}{_consequence(policy, name)}"
        for number, rule in enumerate(strategy.rules, start=1):
            yield f"  {number}. {sentence(name, rule)}"


def _consequence(policy: Policy, name: StrategyName) -> str:
    match name:
        case StrategyName.DONTSCHEDULE:
            return "no new pod of this policy is scheduled on the node"
        case StrategyName.DESCHEDULE:
            evicted = "pods of this policy are to be evicted"
            if Action.LABEL not in policy.actions.kinds:
                return evicted
            return f"the node is labelled {policy.key.name}={VIOLATING}, and {evicted}"
        case StrategyName.LABELING:
            labels = Action.LABEL in policy.actions.kinds
            return (
                "the node gets the labels"
                if labels
                else "no labels: plimsoll.io/actions does not name label"
            )
        case StrategyName.SCHEDULEONMETRIC:
            return "nodes are ranked for new pods of this policy"


def _actions(policy: Policy) -> Iterator[str]:
    """Yield a line for the taint and one for the condition of a policy."""
    actions = policy.actions
    if Action.TAINT in actions.kinds:
        effect, key = actions.effect, taint_key(DOMAIN, policy.key)
        more = ""
        if effect is TaintEffect.NO_EXECUTE:
            effect, more = TaintEffect.NO_SCHEDULE, f", {effect} where deschedule is violated"
        limited = effect.hard or actions.limits_all
        limit = f", on at most {actions.limit} of the nodes with its metrics" if limited else ""
        yield f"taint {key}:{effect} on violating nodes{more}{limit}, for every pod (needs --taints)"
    if Action.CONDITION in actions.kinds:
        yield f"condition {actions.condition}: True on violating nodes (needs --conditions)"


def _where(name: StrategyName, strategy: Strategy) -> str:
    if name is StrategyName.SCHEDULEONMETRIC:
        return ""
    if not strategy.rules:
        return "never (no rules), "
    if strategy.all_of and strategy.impossible:
        return "never (one of its rules is invalid), "
    if len(strategy.rules) == 1:
        return "where this rule matches, "
    return (
        f"where {'all of these rules match' if strategy.all_of else 'any of these rules matches'}, "
    )


def sentence(name: StrategyName, rule: Rule) -> str:
    """Return the meaning of one rule."""
    if name is StrategyName.SCHEDULEONMETRIC:
        return _ranked(rule, _subject(name, rule))
    text = f"Matches {_when(rule, _subject(name, rule))}."
    if rule.options.when_missing is WhenMissing.VIOLATE:
        text += " A missing reading counts as a match."
    if rule.labels:
        labels = " and ".join(f"{label.key}={label.value}" for label in rule.labels)
        text += f" Sets {labels}."
    return text


def _subject(name: StrategyName, rule: Rule) -> str:
    per_pod = rule.metric in DERIVED_METRICS and name in PER_POD_STRATEGIES
    return f"{rule.metric} (for the pod being scheduled)" if per_pod else rule.metric


def _when(rule: Rule, subject: str) -> str:
    target = rule.written or rule_options.formatted(rule.target)
    number = rule_options.formatted(rule.target)
    value = target if target == number else f"{target} ({number})"
    compared = f"{_COMPARED[rule.operator]} {value}"
    clear = format_duration(rule.options.clear_after)
    if not rule.options.for_seconds:
        after = f", and {clear} longer" if rule.options.clear_after else ""
        return f"while {subject} is {compared}{after}"
    after = f", until {clear} after it no longer is" if rule.options.clear_after else ""
    return (
        f"once {subject} has been {compared} for {format_duration(rule.options.for_seconds)}{after}"
    )


def _ranked(rule: Rule, subject: str) -> str:
    orders = {
        Operator.LESS_THAN: f"Lower values of {subject} are better",
        Operator.GREATER_THAN: f"Higher values of {subject} are better",
        Operator.EQUALS: f"All nodes with a reading of {subject} rank equally",
    }
    return f"{orders[rule.operator]}; nodes without a reading are not ranked."
